// Reads sessions without Node: trees, contexts, requests, statistics.
export {
  type BranchComparison,
  compareBranches,
  type SessionStats,
  statsOf,
} from "@espalier/engine/reading";
export {
  anthropicFormat,
  branches,
  buildRequest,
  buildSessionContext,
  type DrawOptions,
  drawTree,
  type Entry,
  labelsInForce,
  leafOf,
  openaiChatFormat,
  openaiResponsesFormat,
  pathOf,
  readTree,
  type SessionContext,
  type Tree,
} from "@espalier/session-tree";
