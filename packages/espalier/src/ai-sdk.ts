// Every model of the AI SDK, for turns and for summaries; needs `ai`.
export {
  type AiSdkParams,
  type AiSdkProviderOptions,
  aiSdk,
  type TokenPrices,
} from "@espalier/engine/ai-sdk";
