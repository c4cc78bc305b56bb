export type { EntryRange, HistorySummaryOptions, OmittedEntries, SummaryOptions } from "./compact.ts";
export {
  type CompactionDetails,
  type CompactionSummary,
  compact,
  generateSummary,
  omittedEntries,
  rangeOf,
} from "./compact.ts";
export type { CompactionSpan, CutItem, Estimate, UserWords } from "./cut.ts";
export {
  type CutPoint,
  currentSystemMessage,
  findCutPoint,
  legalCuts,
  readSpan,
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
  FittedPlan,
  NothingToCompact,
  PlanConditions,
  Selection,
} from "./plan.ts";
export {
  contentEdit,
  coveredFiles,
  type PrepareOptions,
  planAt,
  planSelection,
  prepareCompaction,
  shrinkEdits,
  withoutPicture,
} from "./plan.ts";
export type {
  CompactionInTheMaking,
  LearntWindows,
  OffloadPlan,
  Policy,
  PolicyMoment,
  PolicySituation,
} from "./policy.ts";
export {
  effectiveWindow,
  isByteOverflow,
  isContextOverflow,
  learntWindows,
  namedWindow,
  shouldCompact,
  tokenBudget,
  trustedTokens,
} from "./policy.ts";
export {
  HISTORY_SECTIONS,
  SUMMARIZATION_PROMPT,
  TURN_PREFIX_SECTIONS,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
  UPDATE_SUMMARIZATION_PROMPT,
} from "./prompts.ts";
export type { FoundInMessage, RulesOnOptions } from "./rules.ts";
export {
  findRulesOnce,
  foundIn,
  newRules,
  RULE,
  type Rule,
  type RuleData,
  RuleState,
  ruleFrom,
  ruleOf,
  ruleStateOn,
  rulesIn,
  rulesOn,
} from "./rules.ts";
export {
  type CompactionSettings,
  checkCompaction,
  DEFAULT_COMPACTION_SETTINGS,
  thresholdOf,
} from "./settings.ts";
export {
  goalIn,
  joinSummary,
  latestUserMessageIn,
  proseOf,
  rulesBlock,
  SUMMARY_NOTE,
  type SummaryBlocks,
  type SummaryStyle,
} from "./summary-text.ts";
