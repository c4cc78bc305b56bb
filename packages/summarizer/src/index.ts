export {
  type AnthropicModel,
  anthropicModel,
  anthropicModels,
  contextWindowOf,
  type ReportedUsage,
  toUsage,
} from "./anthropic-models.ts";
export {
  type AnthropicAccess,
  type AnthropicSummarizer,
  type AnthropicSummarizerOptions,
  anthropicClient,
  anthropicSummarizer,
  clampOutput,
  DEFAULT_ANTHROPIC_MODEL,
  type LastRequest,
  type SentBody,
  thinkingBudget,
} from "./anthropic-summarizer.ts";
export type { FitOptions, FullFitOptions } from "./chunks.ts";
export { newestRequest, withoutAgentLines } from "./extractive/speech.ts";
export {
  type ExtractiveSummarizerOptions,
  extractiveSummarizer,
} from "./extractive/summarizer.ts";
export {
  collectFileOps,
  type FileLists,
  type FileOps,
  type FileTool,
  fileLists,
  fileTools,
  formatFileLists,
  newFileOps,
  parseFileLists,
  patchedFiles,
  recordedFiles,
  type TouchedFiles,
} from "./files.ts";
export { PRICES_DATE, pricesOf } from "./prices.ts";
export {
  type ChainOptions,
  chainOf,
  type FittedAnswer,
  type FittedRequest,
  type FittingOptions,
  fitRequest,
  isExtractive,
  type RequestSummaryOptions,
  requestSummary,
  runPool,
  summarizeFitting,
  withFitting,
} from "./request-summary.ts";
export {
  exponentialDelay,
  fetchWithShortWaits,
  namesByteOverflow,
  namesOverflow,
  type RetryOptions,
  raceAbort,
  type Sleep,
  sdkError,
  withFallback,
  withFallbackFor,
  withRetry,
  withSummarize,
  withWindow,
} from "./retry.ts";
export { type FoundRule, findRules, type RuleKind } from "./rule-finder.ts";
export type {
  Summarizer,
  SummaryAnswer,
  SummaryOmission,
  SummaryProgress,
  SummaryPrompt,
  SummaryPurpose,
  SummaryRequest,
  SummaryStopReason,
} from "./summarizer.ts";
export {
  billOf,
  isSummaryError,
  missingSections,
  SUMMARIZER_SYSTEM_PROMPT,
  SUMMARY_SECTIONS,
  type SummaryError,
  summarizer,
  summaryError,
  summaryPrompt,
  toSummarizerError,
  validateSummary,
} from "./summarizer.ts";
export {
  charsEstimator,
  contextTokens,
  IMAGE_UPPER_BOUND,
  soundUsage,
  sumUsage,
  type TokenEstimator,
  type TokenPrices,
  upperBoundEstimator,
  usageTokens,
  withCost,
  wordEstimator,
} from "./tokens.ts";
export {
  type Cut,
  type CutShape,
  commonLimit,
  cut,
  cutText,
  DEFAULT_LIMITS,
  escapeAttribute,
  escapeText,
  type RenderedMessage,
  type RenderLimits,
  renderMessage,
  renderTranscript,
  replaceElements,
  splitsPair,
  unescapeText,
} from "./transcript.ts";
