import { type ContextMessage, type Entry, estimateTokens, kindOf, projectPath } from "@espalier/session-tree";
import { openPairs } from "./open-pairs.ts";

/** Where a path is cut. Indexes into the entries that were given. */
export interface CutPoint {
  /** The first entry that stays; `start` when nothing is to be cut. */
  firstKeptIndex: number;
  /** Where the turn begins whose end stays; -1 when the cut is between turns. */
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
 * Where to cut so that about `keepRecentTokens` of the newest conversation stay: from the newest entry backwards until
 * the budget is reached, then the nearest legal point at or after that entry, or the last legal one before it. When
 * the budget is not reached, or nothing is legal, the answer keeps everything.
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
  // A compaction's summary stands in front of all: it is no part of what may be cut.
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
  while (firstKeptIndex > 0 && clings(items[firstKeptIndex - 1]!)) firstKeptIndex--;
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

/** A turn begins wherever a context may, but with an answer. */
const beginsTurn = (message: ContextMessage): boolean => canBeFirst(message) && message.role !== "assistant";

/** A shell run that the user kept from the model weighs nothing and begins nothing. */
const isExcluded = (message: ContextMessage): boolean =>
  message.role === "bashExecution" && message.excludeFromContext === true;

/** Entries of kinds that say nothing to the model stay with what follows them; so does an excluded shell run. */
export function clings({ entry, messages }: CutItem): boolean {
  if (messages.length > 0) return messages.every(isExcluded);
  const kind = kindOf(entry);
  return !kind.toMessages && !kind.firstKept && !kind.edit;
}
