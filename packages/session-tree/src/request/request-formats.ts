import { anthropicFormat } from "./anthropic-format.ts";
import { openaiChatFormat } from "./openai-chat-format.ts";
import { openaiResponsesFormat } from "./openai-responses-format.ts";

/** The formats by the names that the command line gives them. */
export const requestFormats = {
  anthropic: anthropicFormat,
  openai: openaiChatFormat,
  "openai-responses": openaiResponsesFormat,
} as const;
