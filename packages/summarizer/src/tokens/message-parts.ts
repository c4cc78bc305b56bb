import { type ContextMessage, contentBlocks } from "@espalier/session-tree";

/** What of a message is prose, what is code (calls, results, commands), and how many pictures it has. */
export interface MessageParts {
  prose: string[];
  code: string[];
  images: number;
}

const NOTHING: MessageParts = { prose: [], code: [], images: 0 };

/** Takes a neutral message apart for an estimator. A bash run excluded from the context has no parts. */
export function messageParts(message: ContextMessage): MessageParts {
  if (message.role === "bashExecution") {
    return message.excludeFromContext
      ? NOTHING
      : { ...NOTHING, code: texts(message.command, message.output) };
  }
  if (message.role === "compactionSummary" || message.role === "branchSummary") {
    return { ...NOTHING, prose: texts(message.summary) };
  }
  const parts: MessageParts = { prose: [], code: [], images: 0 };
  const words = message.role === "toolResult" ? parts.code : parts.prose;
  for (const block of contentBlocks(message)) {
    if (block.type === "text") words.push(...texts(block.text));
    else if (block.type === "thinking") parts.prose.push(...texts(block.thinking));
    else if (block.type === "image") parts.images++;
    else if (block.type === "toolCall") parts.code.push(...texts(block.name, json(block.arguments)));
  }
  if (message.role === "system") {
    parts.prose.push(...texts(...Object.values(message.sections ?? {})));
    if (message.toolsAdded) parts.code.push(...texts(json(message.toolsAdded)));
  }
  return parts;
}

const texts = (...values: unknown[]): string[] =>
  values.filter((value): value is string => typeof value === "string" && value !== "");

const json = (value: unknown): string | undefined => JSON.stringify(value);
