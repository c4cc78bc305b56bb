export {
  type CompactionDetails,
  type CompactionSummary,
  compact,
  type EntryRange,
  generateSummary,
  HISTORY_SECTIONS,
  type HistorySummaryOptions,
  type OmittedEntries,
  omittedEntries,
  rangeOf,
  SUMMARIZATION_PROMPT,
  type SummaryOptions,
  TURN_PREFIX_SECTIONS,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
  UPDATE_SUMMARIZATION_PROMPT,
} from "./compact.ts";
export {
  type CompactionSpan,
  type CutItem,
  type CutPoint,
  currentSystemMessage,
  cutAt,
  cutItems,
  findCutPoint,
  firstKeptProblem,
  latestUserMessage,
  legalCuts,
  openPairs,
  readSpan,
  type UserWords,
  userTexts,
  waitingItem,
} from "./cut.ts";
export { editsWithout, excessBytes, excessPictures, isPicture, pictureEdits, shrinkEdits } from "./edits.ts";
export {
  type BeforeCompactAnswer,
  type BeforeCompactEvent,
  type CompactEvent,
  type CompactFailedEvent,
  type CompactionOutcome,
  type CompactionProposal,
  type RulesFound,
  rulesFound,
  sessionBeforeCompact,
  sessionCompact,
  sessionCompactFailed,
} from "./hooks.ts";
export type {
  CompactionPlan,
  CompactionPreparation,
  CompactionReason,
  NothingToCompact,
  PlanConditions,
} from "./plan.ts";
export {
  type FittedPlan,
  type PrepareOptions,
  planAt,
  planSelection,
  prepareCompaction,
  type Selection,
} from "./plan.ts";
export type { CompactionInTheMaking, OffloadPlan, Policy, PolicyMoment, PolicySituation } from "./policy.ts";
export {
  effectiveWindow,
  isByteOverflow,
  isContextOverflow,
  type LearntWindows,
  learntWindows,
  namedWindow,
  shouldCompact,
  tokenBudget,
  trustedTokens,
} from "./policy.ts";
export { type FoundRule, findRules, type RuleKind } from "./rule-finder.ts";
export {
  type FoundInMessage,
  foundIn,
  newRules,
  RULE,
  RULE_KINDS,
  type Rule,
  type RuleData,
  type RulesOnOptions,
  ruleFrom,
  ruleOf,
  rulesIn,
  rulesOn,
} from "./rules.ts";
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
  rulesBlock,
  SUMMARY_NOTE,
  type SummaryBlocks,
  type SummaryStyle,
} from "./summary-text.ts";
