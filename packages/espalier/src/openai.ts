// OpenAI, and servers that speak its API, for turns and for summaries; needs `openai`.
export {
  type OpenaiClient,
  type OpenaiOptions,
  type OpenaiResponsesOptions,
  openai,
  openaiResponses,
  type TokenPrices,
} from "@espalier/engine/openai";
