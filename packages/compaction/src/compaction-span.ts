import {
  type CompactionEntry,
  type ContextMessage,
  compaction,
  type Entry,
  isMessage,
  messageText,
  type ProjectedEntry,
  projectPath,
} from "@espalier/session-tree";
import { goalIn, proseOf } from "./summary-blocks.ts";

/** The part of a path that a compaction can take from: what the model reads, without the summary in front of it. */
export interface CompactionSpan {
  items: ProjectedEntry[];
  leafId: string;
  /** Everything the model reads at the leaf, the summary included. */
  visible: ContextMessage[];
  /** The prose of the summary in front. */
  previousSummary: string | undefined;
  /** The user's first message: from the summary in front, or from the path. */
  goal: string | undefined;
  /** The compaction in front. */
  previous: CompactionEntry | undefined;
}

/** Reads a path, root first; the end of one, from the first kept entry on, is enough. */
export function readSpan(entries: readonly Entry[]): CompactionSpan {
  const projected = projectPath(entries);
  const front = projected[0];
  // Only a compaction that holds speaks, and it speaks first.
  const previous = front && compaction.is(front.entry) && front.messages.length > 0 ? front.entry : undefined;
  return {
    items: previous ? projected.slice(1) : projected,
    leafId: entries.at(-1)?.id ?? "",
    visible: projected.flatMap(({ messages }) => messages),
    previousSummary: previous && proseOf(previous.summary),
    goal: (previous && goalIn(previous.summary)) ?? firstUserText(entries),
    previous,
  };
}

/** The newest user message among items, and where. */
export function latestUserMessage(
  items: readonly ProjectedEntry[],
): { at: number; text: string } | undefined {
  const at = items.findLastIndex(({ messages }) => messages.some(({ role }) => role === "user"));
  if (at < 0) return undefined;
  return { at, text: items[at]!.messages.map(messageText).join("\n") };
}

function firstUserText(entries: readonly Entry[]): string | undefined {
  const first = entries.find((entry) => isMessage(entry, "user"));
  return first && isMessage(first, "user") ? messageText(first.message) || undefined : undefined;
}
