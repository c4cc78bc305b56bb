import { defineEntry, type Entry } from "../entry.ts";
import type { CustomMessage, UserContent } from "../message.ts";

/** Text that an extension put into the conversation; the model reads it as a user's. */
export interface CustomMessageEntry extends Entry {
  type: "custom_message";
  /** Whose it is: the extension's own name for this kind of message. */
  customType: string;
  content: UserContent;
  /** Whether people are shown it; the model reads it either way. */
  display: boolean;
  /** For the extension and for people; no model reads it. */
  details?: unknown;
}

/** The kind of {@link CustomMessageEntry}: says its content, as a `custom` message. */
export const customMessage = defineEntry<CustomMessageEntry>("custom_message", {
  movesLeaf: true,
  toMessages: ({ customType, content, display, details, timestamp }): CustomMessage[] => [
    {
      role: "custom",
      customType,
      content: content ?? [],
      display,
      ...(details === undefined ? {} : { details }),
      timestamp: Date.parse(timestamp),
    },
  ],
  problem: (entry) => (typeof entry.customType !== "string" ? "`customType` is not text" : undefined),
});
