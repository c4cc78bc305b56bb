import { jsonText } from "@espalier/jsonl-stream";
import { type ContextMessage, contentBlocks } from "./message.ts";

/** A picture counts as this many tokens whatever its size (origins 002: "estimate 1200 per image"). */
export const IMAGE_TOKENS = 1_200;

/** Characters a token stands for in the rough estimate (origins 002: "chars / 4"). */
export const CHARS_PER_TOKEN = 4;

const IMAGE_CHARS = IMAGE_TOKENS * CHARS_PER_TOKEN;

/**
 * Rough size of one neutral message in tokens: characters / 4, rounded up per message, {@link IMAGE_TOKENS} a picture.
 * Characters are UTF-16 code units of text, thinking, and name plus JSON arguments of calls.
 * A bash run excluded from the context weighs 0.
 */
export function estimateTokens(message: ContextMessage): number {
  return Math.ceil(messageChars(message) / CHARS_PER_TOKEN);
}

/** The sum of {@link estimateTokens} over messages. */
export function estimateTotal(messages: readonly ContextMessage[]): number {
  let total = 0;
  for (const message of messages) total += estimateTokens(message);
  return total;
}

function messageChars(message: ContextMessage): number {
  if (message.role === "bashExecution") {
    return message.excludeFromContext ? 0 : textLength(message.command) + textLength(message.output);
  }
  if (message.role === "compactionSummary" || message.role === "branchSummary")
    return textLength(message.summary);
  let chars = 0;
  for (const block of contentBlocks(message)) {
    if (block.type === "text") chars += textLength(block.text);
    else if (block.type === "thinking") chars += textLength(block.thinking);
    else if (block.type === "image") chars += IMAGE_CHARS;
    else if (block.type === "toolCall") chars += textLength(block.name) + jsonText(block.arguments).length;
  }
  if (message.role === "system") {
    for (const section of Object.values(message.sections ?? {})) chars += textLength(section);
    if (message.toolsAdded) chars += jsonText(message.toolsAdded).length;
  }
  return chars;
}

const textLength = (value: unknown): number => (typeof value === "string" ? value.length : 0);
