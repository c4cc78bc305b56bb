export { activeMessages, countActive } from "./active-messages.ts";
export { type ArchivedRows, archivedRows, isArchived, rowsHidden } from "./archived.ts";
export { type AskingOptions, askRepeatedly } from "./ask-repeatedly.ts";
export { cleanupOffloadedFiles } from "./cleanup-offloaded-files.ts";
export type { CompactOptions, CompactResult } from "./compact-result.ts";
export { CompactionTrigger, type PressureLevel } from "./compaction-trigger.ts";
export {
  buildCompressedHistory,
  COMPRESSED_HISTORY_HEADING,
  type SplitMessages,
  splitMessages,
} from "./compressed-history.ts";
export {
  ContextCompactor,
  type ContextCompactorOptions,
  type SummarizerForModel,
} from "./context-compactor.ts";
export {
  type CompactionCounts,
  EventBus,
  type EventPayloads,
  EventType,
  type Listener,
  progressMessage,
} from "./event-bus.ts";
export { type GenerateSummaryOptions, generateSummary } from "./generate-summary.ts";
export { getHistory, getHistoryContext, type HistoryOptions } from "./history.ts";
export { HistoryPruner, type PrunedHistory } from "./history-pruner.ts";
export { planKeepingNewest } from "./keep-newest.ts";
export { memoryOffloadStorage } from "./memory-offload-storage.ts";
export { messageCount } from "./message-count.ts";
export {
  checkMessageCountSettings,
  DEFAULT_MESSAGE_COUNT_SETTINGS,
  type MessageCountSettings,
} from "./message-count-settings.ts";
export { formatMessages } from "./message-lines.ts";
export { offload } from "./offload.ts";
export {
  type OffloadedResult,
  type OffloadOptions,
  type OffloadResult,
  offloadIfNeeded,
} from "./offload-if-needed.ts";
export { contentUnavailable, offloadedPath, offloadReference } from "./offload-reference.ts";
export {
  checkOffloadSettings,
  DEFAULT_OFFLOAD_SETTINGS,
  type OffloadSettings,
  OUTPUT_MARGIN,
} from "./offload-settings.ts";
export type { OffloadStorage } from "./offload-storage.ts";
export {
  type OffloadedEntry,
  type OffloadRepair,
  offloadedEntries,
  planOffloadRepair,
} from "./offloaded-entries.ts";
export type { PlanOptions } from "./plan-options.ts";
export { PolicyError, type PolicyErrorCode } from "./policy-error.ts";
export type { PolicyLog } from "./policy-log.ts";
export { pressure } from "./pressure.ts";
export {
  checkPressureSettings,
  DEFAULT_PRESSURE_SETTINGS,
  type PressureSettings,
} from "./pressure-settings.ts";
export {
  COMPACT_SUMMARY_PROMPT,
  COMPACT_SUMMARY_SECTIONS,
  compactSummaryPrompt,
} from "./prompts/compact-summary.ts";
export { RANGE_SUMMARY_PROMPT } from "./prompts/range-summary.ts";
export { type HistoryHit, type HistoryQuery, queryHistory } from "./query-history.ts";
export {
  queryHistoryAnthropicTool,
  queryHistoryOpenaiTool,
  queryHistoryTool,
  runQueryHistory,
} from "./query-history-tool.ts";
export { restoreOffloadedContent } from "./restore-offloaded-content.ts";
export {
  type CompactionResult,
  SessionCompactor,
  type SessionCompactorOptions,
  type SessionManager,
} from "./session-compactor.ts";
export {
  type ReadableSession,
  type SessionSummary,
  SUMMARY_HEADING,
  sessionSummaries,
} from "./session-summary.ts";
export type { Sleep } from "./sleep.ts";
export { slidingWindow } from "./sliding-window.ts";
export {
  checkSlidingWindowSettings,
  DEFAULT_SLIDING_WINDOW_SETTINGS,
  type SlidingWindowSettings,
} from "./sliding-window-settings.ts";
export {
  type ConsolidatedSession,
  countMessages,
  type SlidingWindowState,
  slidingWindowState,
} from "./sliding-window-state.ts";
export { SUMMARIES_ARE_FOR_REFERENCE, summaryNote } from "./summaries-for-reference.ts";
export { SummaryGenerator, type SummaryGeneratorOptions } from "./summary-generator.ts";
export { TokenCounter } from "./token-counter.ts";
