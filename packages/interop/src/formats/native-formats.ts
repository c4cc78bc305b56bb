import { anthropicNative } from "./anthropic.ts";
import { openaiChatNative } from "./openai-chat.ts";
import { openaiResponsesNative } from "./openai-responses.ts";

/**
 * Formats for `buildRequest`, by the names that the command line gives them: as those of `@espalier/session-tree`, and
 * what only one provider can say (documents, citations, tools that it runs itself) goes back to that provider as it was.
 */
export const nativeFormats = {
  anthropic: anthropicNative,
  openai: openaiChatNative,
  "openai-responses": openaiResponsesNative,
} as const;
