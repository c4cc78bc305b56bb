export type { AskOptions } from "./compact.ts";
export {
  type CompactOptions,
  type CompactResult,
  compact,
  type GenerateSummaryOptions,
  generateSummary,
  HISTORY_SECTIONS,
  SUMMARIZATION_PROMPT,
  TURN_PREFIX_SECTIONS,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
  UPDATE_SUMMARIZATION_PROMPT,
} from "./compact.ts";
export type {
  CompactionPlan,
  CompactionPreparation,
  CompactionReason,
  NothingToCompact,
} from "./compaction-plan.ts";
export {
  type CompactionDetails,
  type EntryRange,
  type OmittedEntries,
  omittedEntries,
  rangeOf,
} from "./compaction-plan.ts";
export {
  type CompactionSpan,
  type CutItem,
  type CutPoint,
  cutAt,
  cutItems,
  findCutPoint,
  firstKeptProblem,
  latestUserMessage,
  legalCuts,
  openPairs,
  readSpan,
  systemInForce,
  type UserWords,
  userTexts,
  waitingItem,
} from "./cut.ts";
export {
  type BeforeCompactAnswer,
  type BeforeCompactEvent,
  type CompactEvent,
  type CompactFailedEvent,
  type CompactionOutcome,
  type CompactionProposal,
  sessionBeforeCompact,
  sessionCompact,
  sessionCompactFailed,
} from "./hooks.ts";
export {
  isByteOverflow,
  isContextOverflow,
  type LearntWindows,
  learntWindows,
  windowInForce,
  windowTold,
} from "./overflow.ts";
export { type PrepareOptions, prepareCompaction } from "./plan.ts";
export type { PlanConditions } from "./plan-at.ts";
export {
  editsWithout,
  excessBytes,
  excessPictures,
  type FittedPlan,
  isPicture,
  pictureEdits,
  planAt,
  planSelection,
  type Selection,
  shrinkEdits,
} from "./plan-at.ts";
export type { CompactionInTheMaking, OffloadPlan, Policy, PolicyMoment, PolicySituation } from "./policy.ts";
export { shouldCompact, tokenBudget, trustedTokens } from "./policy.ts";
export {
  type CompactionSettings,
  DEFAULT_COMPACTION_SETTINGS,
  thresholdOf,
} from "./settings.ts";
export {
  frameSummary,
  goalIn,
  joinSummary,
  latestUserMessageIn,
  PLANNED_SUMMARY_TOKENS,
  proseOf,
  SUMMARY_NOTE,
  type SummaryBlocks,
  type SummaryStyle,
} from "./summary-text.ts";
