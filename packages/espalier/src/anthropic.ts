// Claude, for the agent and for summaries; needs `@anthropic-ai/sdk`.
export { type AnthropicModelOptions, anthropicModel } from "@espalier/agent";
export {
  type AnthropicAccess,
  type AnthropicSummarizerOptions,
  anthropicModels,
  anthropicSummarizer,
} from "@espalier/summarizer";
