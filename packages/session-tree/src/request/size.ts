import { jsonText } from "@espalier/jsonl-stream";
import { type ContentBlock, type ContextMessage, contentBlocks } from "../entry/message.ts";
import { wording } from "./wording.ts";

/** Bytes that a format adds to a message or a block: field names, quotes, an image's media type. */
const FRAME = 128;
const encoder = new TextEncoder();

/**
 * Estimates how many bytes a message adds to the body of a request: its text as JSON in UTF-8, its images as base64.
 * The estimate is rather too high than too low. It is not a token count.
 */
export function estimateBytes(message: ContextMessage): number {
  const worded = wording(message);
  if (worded !== undefined) return worded === "" ? 0 : FRAME + bytesOf(worded);
  let bytes = FRAME;
  for (const block of contentBlocks(message)) bytes += blockBytes(block);
  if (message.role === "toolResult") bytes += FRAME + bytesOf(message.toolCallId);
  if (message.role === "system")
    bytes += jsonBytes(message.sections ?? {}) + jsonBytes(message.toolsAdded ?? []);
  return bytes;
}

/** Estimates how many bytes a block adds to the body of a request. */
export function blockBytes(block: ContentBlock): number {
  if (block.type === "text") return FRAME + bytesOf(block.text);
  if (block.type === "image") return FRAME + (typeof block.data === "string" ? block.data.length : 0);
  if (block.type === "thinking")
    return FRAME + bytesOf(block.thinking) + bytesOf(block.thinkingSignature ?? "");
  // An image at an address is sent as its address.
  if (block.type !== "toolCall") return FRAME + bytesOf((block as { url?: unknown }).url);
  return FRAME + bytesOf(block.id) + bytesOf(block.name) + jsonBytes(block.arguments);
}

/** Number of messages of a list that were measured, and their bytes. A running context grows at its end. */
interface Seen {
  messages: number;
  bytes: number;
}

const seen = new WeakMap<readonly ContextMessage[], Seen>();

/**
 * Returns the sum of {@link estimateBytes}. For a list that has grown since the last call, only the new messages are
 * measured: a replaced message in the same list is not noticed, unless the list became shorter.
 */
export function totalBytes(list: readonly ContextMessage[]): number {
  let { messages, bytes } = seen.get(list) ?? { messages: 0, bytes: 0 };
  if (messages > list.length) [messages, bytes] = [0, 0];
  for (; messages < list.length; messages++) bytes += estimateBytes(list[messages]!);
  seen.set(list, { messages, bytes });
  return bytes;
}

/** Returns the bytes of a text in JSON; 0 for a value that is not a text. */
const bytesOf = (text: unknown): number =>
  typeof text === "string" ? encoder.encode(JSON.stringify(text)).length : 0;

/** Returns the bytes of a value as JSON inside a text. Some providers take the arguments of a call in this form. */
const jsonBytes = (value: unknown): number => bytesOf(jsonText(value));
