// What reads sessions where there is no Node: trees, contexts, requests, statistics.
export {
  type BranchComparison,
  compareBranches,
  type HistoryHit,
  historyOf,
  type SessionStats,
  statsOf,
} from "@espalier/engine/reading";
export { bytesView } from "@espalier/jsonl-stream";
export {
  anthropicFormat,
  branches,
  buildRequest,
  buildSessionContext,
  commonAncestor,
  type DrawOptions,
  drawTree,
  type Entry,
  isOnPath,
  labelsInForce,
  memoryStore,
  openaiChatFormat,
  openaiResponsesFormat,
  pathOf,
  type SessionContext,
  SessionTree,
  Tree,
} from "@espalier/session-tree";
export { charsEstimator, renderTranscript } from "@espalier/summarizer";
