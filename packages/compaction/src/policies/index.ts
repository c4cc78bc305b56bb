export type { PlanOptions } from "../policy.ts";
export { COMPACT_SUMMARY_PROMPT, COMPACT_SUMMARY_SECTIONS, RANGE_SUMMARY_PROMPT } from "../prompts.ts";
export { defaultsOf, type NumberSetting, type SettingsOf, type SettingsTable } from "../settings.ts";
export type { GenerateSummaryOptions, RetriesOptions, SummarizerForModel } from "./context-compactor.ts";
export {
  buildCompressedHistory,
  type CompactOptions,
  type CompactResult,
  ContextCompactor,
  type ContextCompactorOptions,
  generateSummary,
  type SplitMessages,
  splitMessages,
  withRetries,
} from "./context-compactor.ts";
export type { Listener, PolicyLog } from "./events.ts";
export {
  type CompactionCounts,
  EventBus,
  type EventPayloads,
  EventType,
  progressMessage,
} from "./events.ts";
export type { HistoryOptions } from "./history.ts";
export {
  type AppliedEdit,
  type ArchivedRows,
  activeMessages,
  archivedRows,
  countActive,
  formatMessages,
  getHistory,
  getHistoryContext,
  hasMessages,
  isArchived,
  isMadeByUser,
  newestEdits,
  type ReadableSession,
  rowsHidden,
  type SessionSummary,
  SUMMARY_HEADING,
  sessionSummaries,
} from "./history.ts";
export {
  DEFAULT_MESSAGE_COUNT_SETTINGS,
  type MessageCountSettings,
  messageCount,
  planKeepingNewest,
} from "./message-count.ts";
export {
  POLICIES,
  POLICY_NAMES,
  type PolicyName,
  type PolicySettings,
  resolvePolicy,
} from "./named-policies.ts";
export type { OffloadedResult } from "./offload.ts";
export {
  DEFAULT_OFFLOAD_SETTINGS,
  type OffloadedEntry,
  type OffloadOptions,
  type OffloadResult,
  type OffloadSettings,
  offload,
  offloadedEntries,
  offloadIfNeeded,
  planOffloadRepair,
} from "./offload.ts";
export type { OffloadStorage } from "./offload-storage.ts";
export {
  COMPRESSED_HISTORY_HEADING,
  cleanupOffloadedFiles,
  compactSummaryPrompt,
  contentUnavailable,
  memoryOffloadStorage,
  OUTPUT_MARGIN,
  offloadedPath,
  offloadReference,
  restoreOffloadedContent,
} from "./offload-storage.ts";
export type { PrunedHistory } from "./pressure.ts";
export {
  CompactionTrigger,
  DEFAULT_PRESSURE_SETTINGS,
  HistoryPruner,
  type PressureLevel,
  type PressureSettings,
  pressure,
  TokenCounter,
} from "./pressure.ts";
export {
  type HistoryHit,
  type HistoryQuery,
  queryHistory,
  queryHistoryAnthropicTool,
  queryHistoryOpenaiTool,
  queryHistoryTool,
  runQueryHistory,
  SUMMARIES_ARE_FOR_REFERENCE,
  summaryNote,
} from "./query-history.ts";
export type { SummaryGeneratorOptions } from "./session-compactor.ts";
export {
  type CompactionResult,
  SessionCompactor,
  type SessionCompactorOptions,
  type SessionManager,
  SummaryGenerator,
} from "./session-compactor.ts";
export type { ConsolidatedSession } from "./sliding-window.ts";
export {
  countMessages,
  DEFAULT_SLIDING_WINDOW_SETTINGS,
  type SlidingWindowSettings,
  type SlidingWindowState,
  slidingWindow,
  slidingWindowState,
} from "./sliding-window.ts";
