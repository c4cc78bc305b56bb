// Summarizers between which a real one has to lie: everything, nothing, the newest text, the most frequent names.
import type { ContextMessage } from "@espalier/session-tree";
import { type Summarizer, summarizer } from "@espalier/summarizer";
import { namesIn, ReadMessage } from "./transcript.ts";

/** Characters of the texts of a control: 2,000 tokens. */
const ROOM = 8_000;

const textOf = (messages: readonly ContextMessage[]): string =>
  messages.map((message) => new ReadMessage(message).text).join("\n");

/** Text of all messages: nothing is lost, and nothing is saved. */
export const identity = (messages: readonly ContextMessage[]): string => textOf(messages);

/** A summary that says nothing. Beside it only the blocks of the core are left. */
export const empty: Summarizer = summarizer(() => "–", { name: "empty" });

/** The newest text of what is summarized. */
export const newest: Summarizer = summarizer(
  ({ messages, previousSummary = "" }) => `${previousSummary}\n${textOf(messages)}`.slice(-ROOM),
  { name: "newest" },
);

/** The names that were written most. */
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
