// Claude, for turns and for summaries; needs `@anthropic-ai/sdk`.
export { type AnthropicOptions, type AnthropicParams, anthropic } from "@espalier/engine/anthropic";
export {
  type AnthropicAccess,
  type AnthropicSummarizerOptions,
  anthropicModels,
  anthropicSummarizer,
  type TokenPrices,
} from "@espalier/summarizer";
