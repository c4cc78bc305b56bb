import {
  type CompactionEntry,
  type ContextMessage,
  compaction,
  type Entry,
  isFailedAnswer,
  messageText,
  type ProjectedEntry,
  projectPath,
} from "@espalier/session-tree";
import { goalIn, latestUserMessageIn, proseOf } from "./summary-blocks.ts";
import { userTexts } from "./user-texts.ts";

/** Something the user said, and where among the items of a span; -1 before them. */
export interface UserWords {
  /** Index into the span's items. */
  at: number;
  text: string;
}

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
  /** The user's newest message: among the items, from the summary in front, or from the path. */
  latest: UserWords | undefined;
  /** Whether the newest message waits for its answer. */
  isUnanswered: boolean;
  /** The compaction in front. */
  previous: CompactionEntry | undefined;
}

/** Reads a path, root first; the end of one, from the first kept entry on, is enough. */
export function readSpan(entries: readonly Entry[]): CompactionSpan {
  const projected = projectPath(entries);
  const front = projected[0];
  // Only a compaction that holds speaks, and it speaks first.
  const previous = front && compaction.is(front.entry) && front.messages.length > 0 ? front.entry : undefined;
  const items = previous ? projected.slice(1) : projected;
  const latest = latestUserMessage(items);
  // A summary that has a goal and no newest message was made when both were one.
  const told = (summary: string) => latestUserMessageIn(summary) ?? goalIn(summary);
  const behind = () => (previous && told(previous.summary)) ?? userTexts(entries).at(-1);
  const untold = latest ? undefined : behind();
  return {
    items,
    leafId: entries.at(-1)?.id ?? "",
    visible: projected.flatMap(({ messages }) => messages),
    previousSummary: previous && proseOf(previous.summary),
    goal: (previous && goalIn(previous.summary)) ?? userTexts(entries)[0],
    latest: latest ?? (untold === undefined ? undefined : { at: -1, text: untold }),
    isUnanswered: latest !== undefined && !items.slice(latest.at).some(answers),
    previous,
  };
}

/** The item with the newest user message, when nobody has answered it. */
export const waitingItem = ({
  items,
  latest,
  isUnanswered,
}: Pick<CompactionSpan, "items" | "latest" | "isUnanswered">): ProjectedEntry | undefined =>
  isUnanswered ? items[latest!.at] : undefined;

/** The newest user message among items, and where. */
export function latestUserMessage(items: readonly ProjectedEntry[]): UserWords | undefined {
  const at = items.findLastIndex(({ messages }) => messages.some(({ role }) => role === "user"));
  return at < 0 ? undefined : { at, text: items[at]!.messages.map(messageText).join("\n") };
}

const answers = ({ messages }: ProjectedEntry): boolean =>
  messages.some((message) => message.role === "assistant" && !isFailedAnswer(message));
