export type { AskOptions } from "./ask-parts.ts";
export { type CompactOptions, type CompactResult, compact } from "./compact.ts";
export { type CompactionDetails, type EntryRange, rangeOf } from "./compaction-details.ts";
export { CompactionError, type CompactionErrorCode } from "./compaction-error.ts";
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
} from "./compaction-hooks.ts";
export type {
  CompactionPlan,
  CompactionPreparation,
  CompactionReason,
  NothingToCompact,
} from "./compaction-plan.ts";
export { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "./compaction-settings.ts";
export {
  type CompactionSpan,
  latestUserMessage,
  readSpan,
  type UserWords,
  waitingItem,
} from "./compaction-span.ts";
export { isByteOverflow, isContextOverflow } from "./context-overflow.ts";
export { type CutItem, type CutPoint, cutAt, cutItems, findCutPoint, legalCuts } from "./cut-point.ts";
export { type GenerateSummaryOptions, generateSummary } from "./generate-summary.ts";
export { type LearntWindows, learntWindows, windowInForce } from "./learnt-windows.ts";
export { firstKeptProblem } from "./legal-first-kept.ts";
export type { OffloadPlan } from "./offload-plan.ts";
export { type OmittedEntries, omittedEntries } from "./omitted-entries.ts";
export { openPairs } from "./open-pairs.ts";
export { editsWithout, excessBytes, excessPictures, isPicture, pictureEdits } from "./picture-edits.ts";
export { type FittedPlan, planAt, planSelection, type Selection } from "./plan-at.ts";
export type { PlanConditions } from "./plan-conditions.ts";
export type { CompactionInTheMaking, Policy, PolicyMoment, PolicySituation } from "./policy.ts";
export { type PrepareOptions, prepareCompaction } from "./prepare-compaction.ts";
export { HISTORY_SECTIONS, SUMMARIZATION_PROMPT } from "./prompts/summarization-prompt.ts";
export {
  TURN_PREFIX_SECTIONS,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
} from "./prompts/turn-prefix-summarization-prompt.ts";
export { UPDATE_SUMMARIZATION_PROMPT } from "./prompts/update-summarization-prompt.ts";
export { shouldCompact } from "./should-compact.ts";
export { shrinkEdits } from "./shrink-edits.ts";
export {
  goalIn,
  joinSummary,
  latestUserMessageIn,
  proseOf,
  SUMMARY_NOTE,
  type SummaryBlocks,
} from "./summary-blocks.ts";
export { PLANNED_SUMMARY_TOKENS } from "./summary-limit.ts";
export { frameSummary, type SummaryStyle } from "./summary-style.ts";
export { systemInForce } from "./system-in-force.ts";
export { tokenBudget } from "./token-budget.ts";
export { trustedTokens } from "./trusted-tokens.ts";
export { userTexts } from "./user-texts.ts";
export { windowTold } from "./window-told.ts";
