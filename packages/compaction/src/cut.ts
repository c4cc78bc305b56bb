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
  isFailedAnswer,
  isMessage,
  kindOf,
  messageText,
  type ProjectedEntry,
  projectPath,
  type SystemMessage,
  type ToolDefinition,
  toolCalls,
} from "@espalier/session-tree";
import { withoutAgentLines } from "@espalier/summarizer";
import { goalIn, latestUserMessageIn, proseOf } from "./summary-text.ts";

/** Cut of a path. Indexes into the entries that were given. */
export interface CutPoint {
  /** The first entry that stays; `start` when nothing is to be cut. */
  firstKeptIndex: number;
  /** First index of the turn whose end stays; -1 when the cut is between turns. */
  turnStartIndex: number;
  isSplitTurn: boolean;
}

/** An entry of a path with what it says, as the search for a cut sees it. */
export interface CutItem {
  entry: Entry;
  /** Edits applied; empty for entries that say nothing. */
  messages: readonly ContextMessage[];
}

/**
 * Finds the cut with which about `keepRecentTokens` of the newest conversation stay: from the newest entry backwards
 * until the budget is reached, then the nearest legal point at or after that entry, or the last legal one before it.
 * When the budget is not reached, or nothing is legal, the answer keeps everything.
 *
 * @param entries a path, root first; edits on it are applied
 * @param start the first entry that may be cut away
 * @param end one behind the last entry
 */
export function findCutPoint(
  entries: readonly Entry[],
  start: number,
  end: number,
  keepRecentTokens: number,
): CutPoint {
  // A compaction's summary is in front of all messages: it cannot be cut.
  const said = new Map(
    projectPath(entries).map(({ entry, messages }) => [entry, kindOf(entry).firstKept ? [] : messages]),
  );
  const items = entries.slice(start, end).map((entry) => ({ entry, messages: said.get(entry) ?? [] }));
  const cut = cutItems(items, keepRecentTokens);
  return {
    firstKeptIndex: cut.firstKeptIndex + start,
    turnStartIndex: cut.turnStartIndex < 0 ? -1 : cut.turnStartIndex + start,
    isSplitTurn: cut.isSplitTurn,
  };
}

/** As {@link findCutPoint}, over projected entries and with any estimator. */
export function cutItems(
  items: readonly CutItem[],
  keepRecentTokens: number,
  estimate: (message: ContextMessage) => number = estimateTokens,
): CutPoint {
  const reached = budgetReachedAt(items, keepRecentTokens, estimate);
  if (reached < 0) return KEEP_ALL;
  const legal = legalCuts(items);
  const at = nearestLegal(legal, reached);
  return at < 0 ? KEEP_ALL : cutAt(items, at);
}

/** The cut at a legal item: what says nothing before it stays with it, the turn is judged by what speaks. */
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
 * For each item, 1 where the path may be cut before it: at a message that can stand first, and not between a call and
 * the last of its results.
 */
export function legalCuts(items: readonly CutItem[]): Uint8Array {
  const open = openPairs(items.map(({ messages }) => messages));
  const legal = new Uint8Array(items.length);
  for (const [at, { messages }] of items.entries())
    if (open[at] === 0 && messages.some(canBeFirst)) legal[at] = 1;
  return legal;
}

/** The newest item at which the budget is reached, counted from the end; -1 when it never is. */
function budgetReachedAt(
  items: readonly CutItem[],
  keepRecentTokens: number,
  estimate: (message: ContextMessage) => number,
): number {
  let tokens = 0;
  for (let at = items.length - 1; at >= 0; at--) {
    for (const message of items[at]!.messages) tokens += estimate(message);
    if (tokens >= keepRecentTokens && tokens > 0) return at;
  }
  return -1;
}

/** The nearest legal item at or after, else the last one before; -1 when there is none. */
function nearestLegal(legal: Uint8Array, at: number): number {
  const after = legal.indexOf(1, at);
  return after >= 0 ? after : legal.lastIndexOf(1, at);
}

/** Roles at which a context may begin: never a result, which belongs to its call. */
const CAN_BE_FIRST: ReadonlySet<string> = new Set([
  "user",
  "assistant",
  "bashExecution",
  "custom",
  "branchSummary",
]);

const canBeFirst = (message: ContextMessage): boolean =>
  CAN_BE_FIRST.has(message.role) && !isExcluded(message);

/** Returns whether a turn can begin at an entry: where a context can begin, except at an answer. */
const beginsTurn = (message: ContextMessage): boolean => canBeFirst(message) && message.role !== "assistant";

/** A shell run that the user kept from the model weighs nothing and begins nothing. */
const isExcluded = (message: ContextMessage): boolean =>
  message.role === "bashExecution" && message.excludeFromContext === true;

/** Entries of kinds that say nothing to the model stay with what follows them; so does an excluded shell run. */
function staysWithNext({ entry, messages }: CutItem): boolean {
  if (messages.length > 0) return messages.every(isExcluded);
  const kind = kindOf(entry);
  return !kind.toMessages && !kind.firstKept && !kind.edit;
}

/**
 * Reason why a path cannot be kept from this entry on, as a clause; undefined when it can. Proposals of extensions
 * obey the rule of the core: on the path, not before what the last compaction kept, and not inside a pair.
 */
export function firstKeptProblem(path: readonly Entry[], firstKeptEntryId: string): string | undefined {
  if (!path.some(({ id }) => id === firstKeptEntryId)) return "is not on the path";
  const { items } = readSpan(path);
  const from = items.findIndex(({ entry }) => entry.id === firstKeptEntryId);
  if (from < 0) return "is before what the last compaction kept";
  // Entries that say nothing stay with what follows them; what follows has to be where a path may be cut.
  const speaks = items.findIndex((item, at) => at >= from && !staysWithNext(item));
  if (speaks < 0) return undefined;
  return legalCuts(items)[speaks] === 1
    ? undefined
    : "is not where a path may be cut (a call and its results stay together)";
}

/** Returns whether a summary and the path from this entry on (null: nothing) are no smaller than the path. */
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
 * For each place in a list, how many calls before it have a result at it or behind it: where that is none, nothing is
 * parted by a cut before that place. A call without results opens nothing, nor does a result without a call.
 *
 * @param said what each place says
 */
export function openPairs(said: readonly (readonly ContextMessage[])[]): Int32Array {
  const callAt = new Map<string, number>();
  // First by how many more, or fewer, there are than at the place before.
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
  /** True if the newest message has no answer yet. */
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

/** The item with the newest user message, if it has no answer. */
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

/**
 * Current system prompt and tools after all system messages of a context, as one message; undefined where it has
 * none. A compaction carries it, since system messages before a compaction say nothing any more.
 */
export function currentSystemMessage(messages: readonly ContextMessage[]): SystemMessage | undefined {
  const found = messages.filter((message) => message.role === "system");
  const newest = found.at(-1);
  if (!newest) return undefined;
  const sections: Record<string, string> = {};
  const tools = new Map<string, ToolDefinition>();
  for (const message of found) {
    for (const [name, text] of Object.entries(message.sections ?? {})) {
      delete sections[name];
      if (text !== null) sections[name] = text;
    }
    for (const name of listOf(message.toolsRemoved)) tools.delete(name);
    for (const tool of listOf(message.toolsAdded))
      if (typeof tool?.name === "string") tools.set(tool.name, tool);
  }
  const content = found.map(messageText).filter((text) => text !== "");
  return {
    role: "system",
    content: content.join("\n\n"),
    sections,
    toolsAdded: [...tools.values()],
    timestamp: newest.timestamp,
  };
}

/** Fields of a stored message are what a file says: not always lists. */
const listOf = <Item>(value: readonly Item[] | undefined): readonly Item[] =>
  Array.isArray(value) ? value : [];

/**
 * Texts of the user along a path (root first), oldest first, with the edits on it applied, also where a compaction
 * hides it from the model. Messages without text are not among it, nor lines that an agent wrote (an interruption,
 * `/mode`).
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
