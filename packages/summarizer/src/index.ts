export {
  type AnthropicModel,
  type AnthropicPrices,
  anthropicModel,
  anthropicModels,
  clampOutput,
  contextWindowOf,
  type LastRequest,
  type SentBody,
  thinkingBudget,
} from "./anthropic/request.ts";
export {
  type AnthropicAccess,
  type AnthropicSummarizer,
  type AnthropicSummarizerOptions,
  anthropicClient,
  anthropicSummarizer,
  DEFAULT_ANTHROPIC_MODEL,
  type ReportedUsage,
  toUsage,
} from "./anthropic/summarizer.ts";
export {
  type ChainOptions,
  chainOf,
  isExtractive,
  type RequestSummaryOptions,
  requestSummary,
} from "./chain.ts";
export { cutToTokens, DEFAULT_TOOL_RESULT_LIMITS, type FitOptions } from "./chunks.ts";
export {
  type ExtractiveSummarizerOptions,
  extractiveSummarizer,
} from "./extractive/summarizer.ts";
export { withoutAgentLines } from "./extractive/text.ts";
export {
  collectFileOps,
  type FileLists,
  type FileOps,
  type FileTool,
  fileLists,
  fileTools,
  findFileTool,
  formatFileLists,
  newFileOps,
  parseFileLists,
  patchedFiles,
  recordedFiles,
  type TouchedFiles,
} from "./files.ts";
export {
  type FittedAnswer,
  type FittedRequest,
  type FittingOptions,
  fitRequest,
  summarizeFitting,
  withFitting,
} from "./fitting.ts";
export {
  attemptsOf,
  exponentialDelay,
  type RetryOptions,
  toSummarizerError,
  withAttempts,
  withFallback,
  withFallbackFor,
  withRetry,
  withSummarize,
  withWindow,
} from "./retry.ts";
export type {
  Summarizer,
  SummaryAnswer,
  SummaryOmission,
  SummaryProgress,
  SummaryPurpose,
  SummaryRequest,
  SummaryStopReason,
} from "./summarizer.ts";
export {
  addUsage,
  isInvalidAnswer,
  isPassing,
  isSummaryError,
  SUMMARIZER_SYSTEM_PROMPT,
  type SummaryError,
  type SummaryPrompt,
  soundUsage,
  summaryError,
  summaryPrompt,
  usageTokens,
} from "./summarizer.ts";
export {
  type Cut,
  type CutShape,
  cut,
  cutMark,
  cutText,
  escapeAttribute,
  escapeText,
  unescapeText,
} from "./text.ts";
export {
  type ContextMeasure,
  type ContextMeter,
  charsEstimator,
  countMeter,
  estimateMessages,
  estimateMeter,
  IMAGE_UPPER_BOUND,
  lastTrustedUsage,
  type TokenEstimator,
  upperBoundEstimator,
  usageMeter,
  wordEstimator,
} from "./tokens.ts";
export {
  DEFAULT_LIMITS,
  type RenderedMessage,
  type RenderLimits,
  renderMessage,
  renderTranscript,
} from "./transcript.ts";
export { missingSections, SUMMARY_SECTIONS, validateSummary } from "./validate-summary.ts";
