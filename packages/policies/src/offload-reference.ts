import { type ContextMessage, contentBlocks, type ToolResultMessage } from "@espalier/session-tree";

const REFERENCE = "Tool result is at: ";

/** What the context says instead of a result that lies in a file. */
export const offloadReference = (path: string): string => `${REFERENCE}${path}`;

/** What a summarizer is shown of a result whose file is gone. */
export const contentUnavailable = (path: string): string => `[Content unavailable: ${path}]`;

/** The path that a result names instead of its content; undefined for any other message. */
export function offloadedPath(message: ContextMessage): string | undefined {
  return message.role === "toolResult" ? referencedPath(message) : undefined;
}

/** The path in a content that is nothing but a reference. */
export function referencedPath(content: { content?: unknown }): string | undefined {
  const blocks = contentBlocks(content);
  const [only] = blocks;
  if (blocks.length !== 1 || only?.type !== "text" || typeof only.text !== "string") return undefined;
  const isReference = only.text.startsWith(REFERENCE) && !only.text.includes("\n");
  return isReference ? only.text.slice(REFERENCE.length) : undefined;
}

/** A result with this text as its content. */
export function withText(message: ToolResultMessage, text: string): ToolResultMessage {
  return { ...message, content: [{ type: "text", text }] };
}
