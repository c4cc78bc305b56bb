import {
  CHARS_PER_TOKEN,
  type CompactionEntry,
  type ContextEdit,
  type ContextMessage,
  compaction,
  contentBlocks,
  type Entry,
  estimateTokens,
  estimateTotal,
  isBlank,
  isFailedAnswer,
  isMessage,
  kindOf,
  messageText,
  type ProjectedEntry,
  projectPath,
  type SystemMessage,
  systemParts,
  type ToolDefinition,
  toolCalls,
} from "@espalier/session-tree";
import { withoutAgentLines } from "@espalier/summarizer";
import { goalIn, latestUserMessageIn, proseOf } from "./summary-text.ts";

/** Cut of a path, as indexes into the given entries. */
export interface CutPoint {
  /**
   * Index of the first kept entry. `start` (0 without one) when nothing is cut; the number of entries when nothing is
   * kept.
   */
  firstKeptIndex: number;
  /** Index of the first entry of the turn that is cut; -1 when the cut is between turns. */
  turnStartIndex: number;
  isSplitTurn: boolean;
}

/** An entry of a path with its messages, as input of the search for a cut. */
export interface CutItem {
  entry: Entry;
  /** Messages after edits; empty for entries without messages. */
  messages: readonly ContextMessage[];
}

/** Returns the estimated size of a message, in tokens. */
export type Estimate = (message: ContextMessage) => number;

/**
 * Finds the cut that keeps about `keepRecentTokens` of the newest conversation. The search goes backwards from the
 * newest entry until the budget is reached. The cut is the nearest legal point at or after that entry, or else the last
 * legal one before it. Entries without messages directly before the cut are kept too. The result keeps everything when
 * the budget is not reached or no cut is legal.
 *
 * @param entries a path, root first; its edits are applied
 * @param start index of the first entry that may be cut off
 * @param end index after the last entry
 */
export function findCutPoint(
  entries: readonly Entry[],
  start: number,
  end: number,
  keepRecentTokens: number,
): CutPoint {
  // A compaction's summary comes before all messages: it cannot be cut.
  const said = new Map(
    projectPath(entries).map(({ entry, messages }) => [entry, kindOf(entry).firstKept ? [] : messages]),
  );
  const items = entries.slice(start, end).map((entry) => ({ entry, messages: said.get(entry) ?? [] }));
  const cut = cutItems(items, keepRecentTokens);
  const turnStartIndex = cut.turnStartIndex < 0 ? -1 : cut.turnStartIndex + start;
  return { ...cut, firstKeptIndex: cut.firstKeptIndex + start, turnStartIndex };
}

/** Finds a cut like {@link findCutPoint}, for projected entries and with any estimator. */
export function cutItems(
  items: readonly CutItem[],
  keepRecentTokens: number,
  estimate: Estimate = estimateTokens,
): CutPoint {
  const reached = budgetReachedAt(items, keepRecentTokens, estimate);
  if (reached < 0) return KEEP_ALL;
  const legal = legalCuts(items);
  const at = nearestLegal(legal, reached);
  return at < 0 ? KEEP_ALL : cutAt(items, at);
}

/**
 * Returns the cut at a legal item. Entries without messages directly before it are kept too. The first kept entry with
 * a message decides if a turn is cut.
 */
export function cutAt(items: readonly CutItem[], at: number): CutPoint {
  let firstKeptIndex = at;
  while (firstKeptIndex > 0 && staysWithNext(items[firstKeptIndex - 1]!)) firstKeptIndex--;
  const turnStartIndex = items[at]!.messages.some(beginsTurn)
    ? -1
    : items.findLastIndex((item, index) => index < at && item.messages.some(beginsTurn));
  return { firstKeptIndex, turnStartIndex, isSplitTurn: turnStartIndex >= 0 };
}

const KEEP_ALL: CutPoint = { firstKeptIndex: 0, turnStartIndex: -1, isSplitTurn: false };

/**
 * Returns 1 for each item before which the path may be cut: its message can begin a context, and it is not between a
 * call and the last of its results.
 */
export function legalCuts(items: readonly CutItem[]): Uint8Array {
  const open = openPairs(items.map(({ messages }) => messages));
  const legal = new Uint8Array(items.length);
  for (const [at, { messages }] of items.entries())
    if (open[at] === 0 && messages.some(canBeFirst)) legal[at] = 1;
  return legal;
}

/** Returns the newest item at which the budget is reached, counted from the end; -1 when it is never reached. */
function budgetReachedAt(items: readonly CutItem[], keepRecentTokens: number, estimate: Estimate): number {
  let tokens = 0;
  for (let at = items.length - 1; at >= 0; at--) {
    for (const message of items[at]!.messages) tokens += estimate(message);
    if (tokens >= keepRecentTokens && tokens > 0) return at;
  }
  return -1;
}

/** Returns the nearest legal item at or after an index, else the last one before it; -1 when there is none. */
function nearestLegal(legal: Uint8Array, at: number): number {
  const after = legal.indexOf(1, at);
  return after >= 0 ? after : legal.lastIndexOf(1, at);
}

/** Roles that may begin a context. A tool result may not, because it belongs to its call. */
const CAN_BE_FIRST: ReadonlySet<string> = new Set([
  "user",
  "assistant",
  "bashExecution",
  "custom",
  "branchSummary",
]);

const canBeFirst = (message: ContextMessage): boolean =>
  CAN_BE_FIRST.has(message.role) && !isExcluded(message);

/** Returns whether a turn can begin at a message: it can begin a context, and it is not an answer. */
const beginsTurn = (message: ContextMessage): boolean => canBeFirst(message) && message.role !== "assistant";

/**
 * Returns whether a message is a shell run that the user excluded from the context. It has no size and begins no turn.
 */
const isExcluded = (message: ContextMessage): boolean =>
  message.role === "bashExecution" && message.excludeFromContext === true;

/**
 * Returns whether an entry is kept together with the entry after it: it is of a kind without messages that is neither a
 * compaction nor an edit, or it has only excluded shell runs.
 */
function staysWithNext({ entry, messages }: CutItem): boolean {
  if (messages.length > 0) return messages.every(isExcluded);
  const kind = kindOf(entry);
  return !kind.toMessages && !kind.firstKept && !kind.edit;
}

/**
 * Returns the reason why a path cannot be kept from this entry on, as a clause; undefined when it can. Proposals of
 * extensions follow the same rule as the core: the entry is on the path, not before the entries that the last
 * compaction kept, able to begin a context, and not between a call and its results.
 */
export function firstKeptProblem(path: readonly Entry[], firstKeptEntryId: string): string | undefined {
  if (!path.some(({ id }) => id === firstKeptEntryId)) return "is not on the path";
  const { items } = readSpan(path);
  const from = items.findIndex(({ entry }) => entry.id === firstKeptEntryId);
  if (from < 0) return "is before the entries that the last compaction kept";
  // Entries without messages are kept with the entry after them, which has to be at a legal cut.
  const speaks = items.findIndex((item, at) => at >= from && !staysWithNext(item));
  if (speaks < 0) return undefined;
  return legalCuts(items)[speaks] === 1
    ? undefined
    : "is not at a legal cut (a call and its results stay together)";
}

/**
 * Returns whether a context of this summary and the messages from the first kept entry on (null: none) would be at
 * least as large as the current one, by characters / 4.
 */
export function isNoSmaller(
  path: readonly Entry[],
  summary: string,
  firstKeptEntryId: string | null,
): boolean {
  const { items, visible } = readSpan(path);
  const from =
    firstKeptEntryId === null ? items.length : items.findIndex(({ entry }) => entry.id === firstKeptEntryId);
  const kept = items.slice(Math.max(from, 0)).flatMap(({ messages }) => messages);
  return Math.ceil(summary.length / CHARS_PER_TOKEN) + estimateTotal(kept) >= estimateTotal(visible);
}

/**
 * Returns, for each index in a list, the number of calls before it that have a result at or after it. A cut before an
 * index with the value 0 separates no call from its results. Calls without results and results without a call do not
 * count.
 *
 * @param said messages of each item
 */
export function openPairs(said: readonly (readonly ContextMessage[])[]): Int32Array {
  const callAt = new Map<string, number>();
  // First the difference from the item before, then the sums.
  const open = new Int32Array(said.length + 1);
  for (const [at, messages] of said.entries()) {
    for (const message of messages) {
      for (const { id } of toolCalls(message)) callAt.set(id, at);
      const call = message.role === "toolResult" ? callAt.get(message.toolCallId) : undefined;
      if (call === undefined) continue;
      open[call + 1]!++;
      open[at + 1]!--;
    }
  }
  for (let at = 1; at < open.length; at++) open[at]! += open[at - 1]!;
  return open.subarray(0, said.length);
}

/** A text of the user, and the index of its item in a span. */
export interface UserWords {
  /** Index into the span's items; -1 when the text is from before them. */
  at: number;
  text: string;
}

/** The part of a path that a compaction can shorten: the context without the summary at its beginning. */
export interface CompactionSpan {
  /** Entries after the compaction at the beginning, or all entries when there is none, each with its messages. */
  items: ProjectedEntry[];
  /** Id of the last entry of the path; empty for an empty path. */
  leafId: string;
  /** All messages of the context at the leaf, including the summary. */
  visible: ContextMessage[];
  /** Prose of the summary at the beginning; undefined when there is none. */
  previousSummary: string | undefined;
  /** The user's first message, from the summary at the beginning or from the path. */
  goal: string | undefined;
  /** The user's newest message, from the items, from the summary at the beginning, or from the path. */
  latest: UserWords | undefined;
  /** Index of the item with the newest user message if that message has no answer yet; else -1. */
  waitingAt: number;
  /** The compaction at the beginning; undefined when there is none. */
  previous: CompactionEntry | undefined;
}

/** Reads the compactable span of a path, root first. The end of a path, from the first kept entry on, is enough. */
export function readSpan(entries: readonly Entry[]): CompactionSpan {
  const projected = projectPath(entries);
  const front = projected[0];
  // Only the current compaction has messages, and they come first.
  const previous = front && compaction.is(front.entry) && front.messages.length > 0 ? front.entry : undefined;
  const items = previous ? projected.slice(1) : projected;
  const at = items.findLastIndex(({ messages }) => messages.some(({ role }) => role === "user"));
  const latest = at < 0 ? undefined : { at, text: items[at]!.messages.map(messageText).join("\n") };
  // In a summary that has a goal and no newest message, the goal was also the newest message.
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
    waitingAt: at >= 0 && items.slice(at).some(answers) ? -1 : at,
    previous,
  };
}

/**
 * Returns cuts that keep less than the cut at `keptFrom`, each less than the one before. The first keeps about half of
 * `keepTokens`, and each next one half of that. The last keeps only the waiting user message and what follows it, or
 * nothing. A waiting message is never cut off.
 */
export function smallerCuts(
  span: CompactionSpan,
  keptFrom: number,
  keepTokens: number,
  estimate: Estimate,
): CutPoint[] {
  const { items, waitingAt: waiting } = span;
  const cuts: CutPoint[] = [];
  const add = (cut: CutPoint) => {
    const isSmaller = cut.firstKeptIndex > (cuts.at(-1)?.firstKeptIndex ?? keptFrom);
    if (isSmaller && (waiting < 0 || cut.firstKeptIndex <= waiting)) cuts.push(cut);
  };
  for (let budget = keepTokens / 2; budget >= 1; budget /= 2) add(cutItems(items, budget, estimate));
  add(
    waiting < 0 ? keepingNothing(span) : cutAt(items, Math.max(0, legalCuts(items).lastIndexOf(1, waiting))),
  );
  return cuts;
}

/** Cut that keeps no item of a span. */
export const keepingNothing = ({ items }: CompactionSpan): CutPoint => ({
  firstKeptIndex: items.length,
  turnStartIndex: -1,
  isSplitTurn: false,
});

/** Returns the item with the newest user message, if that message has no answer. */
export const waitingItem = ({ items, waitingAt }: CompactionSpan): ProjectedEntry | undefined =>
  items[waitingAt];

const answers = ({ messages }: ProjectedEntry): boolean =>
  messages.some((message) => message.role === "assistant" && !isFailedAnswer(message));

/**
 * Returns the system prompt and tools that result from all system messages of a context, as one message; undefined when
 * there is none. A compaction has a copy of it, because system messages before a compaction no longer count.
 */
export function currentSystemMessage(messages: readonly ContextMessage[]): SystemMessage | undefined {
  const newest = messages.findLast((message) => message.role === "system");
  if (!newest) return undefined;
  const { texts, sections, tools } = systemParts(messages);
  const named = [...tools.values()].filter(({ name }) => typeof name === "string");
  return {
    role: "system",
    content: texts.filter((text) => !isBlank(text)).join("\n\n"),
    sections: Object.fromEntries(sections) as Record<string, string>,
    toolsAdded: named as unknown as ToolDefinition[],
    timestamp: newest.timestamp,
  };
}

/**
 * Returns the texts of the user along a path (root first), oldest first, with edits applied, including texts that a
 * compaction hides from the model. Messages without text are left out, and so are lines that an agent wrote (an
 * interruption, `/mode`).
 */
export function userTexts(path: readonly Entry[]): string[] {
  const edits = new Map<string, ContextEdit["replacement"]>();
  for (const entry of path) {
    const kind = kindOf(entry);
    if (!kind.edit || kind.problem?.(entry)) continue;
    const { targetId, replacement } = kind.edit(entry);
    edits.set(targetId, replacement);
  }
  return path.flatMap((entry) => {
    if (!isMessage(entry, "user")) return [];
    const replacement = edits.get(entry.id);
    if (replacement === null) return [];
    const content = replacement === undefined ? entry.message.content : contentBlocks(replacement);
    const text = messageText({ ...entry.message, content } as typeof entry.message);
    const said = withoutAgentLines(text);
    return said.trim() === "" ? [] : [said === text ? text : said.trim()];
  });
}
