// Controls that mark the ends of the scale for a real summarizer: all text, no text, the newest text, the most frequent
// names.
import type { ContextMessage } from "@espalier/session-tree";
import { type Summarizer, summarizer } from "@espalier/summarizer";
import { namesIn, ReadMessage } from "./transcript.ts";

/** Maximum length of a control's summary in characters: 2,000 tokens. */
const ROOM = 8_000;

const textOf = (messages: readonly ContextMessage[]): string =>
  messages.map((message) => new ReadMessage(message).text).join("\n");

/** Text of all messages: no loss and no saving. */
export const identity = (messages: readonly ContextMessage[]): string => textOf(messages);

/** A summary without content. Only the blocks of the core are left. */
export const empty: Summarizer = summarizer(() => "–", { name: "empty" });

/** Summarizes by the newest text of the messages. */
export const newest: Summarizer = summarizer(
  ({ messages, previousSummary = "" }) => `${previousSummary}\n${textOf(messages)}`.slice(-ROOM),
  { name: "newest" },
);

/** Summarizes by the most frequent names. */
export const frequency: Summarizer = summarizer(
  ({ messages, previousSummary = "" }) => {
    const counts = new Map<string, number>();
    for (const message of [previousSummary, ...messages.map((one) => new ReadMessage(one).text)])
      for (const name of namesIn(message)) counts.set(name, (counts.get(name) ?? 0) + 1);
    let list = "";
    for (const [name] of [...counts].sort(([, a], [, b]) => b - a)) {
      if (list.length + name.length >= ROOM) break;
      list += `${name} `;
    }
    return list || "–";
  },
  { name: "frequency" },
);
