export { type AnthropicAccess, anthropicClient } from "./anthropic/anthropic-client.ts";
export {
  type AnthropicModel,
  type AnthropicPrices,
  anthropicModel,
  anthropicModels,
  contextWindowOf,
} from "./anthropic/anthropic-models.ts";
export { type LastRequest, type SentBody, thinkingBudget } from "./anthropic/anthropic-request.ts";
export {
  type AnthropicSummarizer,
  type AnthropicSummarizerOptions,
  anthropicSummarizer,
  DEFAULT_ANTHROPIC_MODEL,
} from "./anthropic/anthropic-summarizer.ts";
export { type ReportedUsage, toUsage } from "./anthropic/anthropic-usage.ts";
export { clampOutput } from "./anthropic/clamp-output.ts";
export { withSummarize } from "./await-answer.ts";
export { type ChainOptions, chainOf, isExtractive } from "./chain-of.ts";
export { type Cut, type CutShape, cut, cutMark, cutText } from "./cut-text.ts";
export { escapeAttribute, escapeText, unescapeText } from "./escape-text.ts";
export {
  type ExtractiveSummarizerOptions,
  extractiveSummarizer,
} from "./extractive/extractive-summarizer.ts";
export { withoutAgentLines } from "./extractive/user-words.ts";
export { attemptsOf, toSummarizerError, withAttempts } from "./failed-attempt.ts";
export { collectFileOps } from "./files/collect-file-ops.ts";
export { type FileLists, fileLists, formatFileLists, parseFileLists } from "./files/file-lists.ts";
export { type FileOps, newFileOps } from "./files/file-ops.ts";
export { type FileTool, findFileTool, type TouchedFiles } from "./files/file-tool.ts";
export { fileTools } from "./files/file-tools.ts";
export { patchedFiles } from "./files/patched-files.ts";
export { recordedFiles } from "./files/recorded-files.ts";
export {
  DEFAULT_LIMITS,
  type RenderedMessage,
  type RenderLimits,
  renderMessage,
} from "./rendered-message.ts";
export { type RequestSummaryOptions, requestSummary } from "./request-summary.ts";
export { missingSections } from "./section-headings.ts";
export { cutToTokens } from "./sizing/cut-to-tokens.ts";
export { DEFAULT_TOOL_RESULT_LIMITS, type FitOptions } from "./sizing/fit-options.ts";
export { type FittedRequest, fitRequest } from "./sizing/fit-request.ts";
export {
  type FittedAnswer,
  type FittingOptions,
  summarizeFitting,
  withFitting,
} from "./sizing/summarize-fitting.ts";
export type { SummaryOmission } from "./sizing/summary-omission.ts";
export type {
  Summarizer,
  SummaryAnswer,
  SummaryProgress,
  SummaryPurpose,
  SummaryRequest,
  SummaryStopReason,
} from "./summarizer.ts";
export {
  type FailedAttempt,
  isInvalidAnswer,
  isPassing,
  SummarizerError,
  type SummarizerErrorCode,
  type SummarizerErrorOptions,
} from "./summarizer-error.ts";
export { SUMMARIZER_SYSTEM_PROMPT, type SummaryPrompt, summaryPrompt } from "./summary-prompt.ts";
export { SUMMARY_SECTIONS } from "./summary-sections.ts";
export { charsEstimator } from "./tokens/chars-estimator.ts";
export {
  type ContextMeasure,
  type ContextMeter,
  countMeter,
  estimateMeter,
  lastTrustedUsage,
  usageMeter,
} from "./tokens/context-meter.ts";
export { estimateMessages, type TokenEstimator } from "./tokens/token-estimator.ts";
export { IMAGE_UPPER_BOUND, upperBoundEstimator } from "./tokens/upper-bound-estimator.ts";
export { wordEstimator } from "./tokens/word-estimator.ts";
export { renderTranscript } from "./transcript.ts";
export { addUsage, soundUsage, usageTokens } from "./usage.ts";
export { validateSummary } from "./validate-summary.ts";
export { withFallback, withFallbackFor } from "./with-fallback.ts";
export { exponentialDelay, type RetryOptions, withRetry } from "./with-retry.ts";
export { withWindow } from "./with-window.ts";
