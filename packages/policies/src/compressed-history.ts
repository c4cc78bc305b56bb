import type { ContextMessage } from "@espalier/session-tree";
import { cutKeeping } from "./keep-newest.ts";
import { DEFAULT_OFFLOAD_SETTINGS } from "./offload-settings.ts";

/** What a summary begins with where this policy wrote it. */
export const COMPRESSED_HISTORY_HEADING = "[Compressed History]\n\n";

/** A conversation in the part that is summarised and the part that stays. */
export interface SplitMessages {
  toCompress: ContextMessage[];
  toPreserve: ContextMessage[];
}

/** Splits off the newest `preserveCount` messages (default 5), and more where that would part a call and its results. */
export function splitMessages(
  messages: readonly ContextMessage[],
  preserveCount: number = DEFAULT_OFFLOAD_SETTINGS.preserveCount,
): SplitMessages {
  const items = messages.map((message) => ({ entry: NO_ENTRY, messages: [message] }));
  const at = messages.length <= preserveCount ? 0 : Math.max(0, cutKeeping(items, preserveCount));
  return { toCompress: messages.slice(0, at), toPreserve: messages.slice(at) };
}

/** A cut between messages is judged by the messages alone. */
const NO_ENTRY = { type: "message", id: "", parentId: null, timestamp: "" };

/** The summary as one user message, then what stayed. */
export function buildCompressedHistory(
  summary: string,
  preserved: readonly ContextMessage[],
  now: number = Date.now(),
): ContextMessage[] {
  return [{ role: "user", content: `${COMPRESSED_HISTORY_HEADING}${summary}`, timestamp: now }, ...preserved];
}
