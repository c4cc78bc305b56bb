import {
  type Entry,
  fieldText,
  isOnPath,
  kindOf,
  messageText,
  pathRows,
  toolCalls,
} from "@espalier/session-tree";
import { archivedRows } from "./archived.ts";
import { type ReadableSession, saysSomething } from "./session-summary.ts";

/** What is looked for. */
export interface HistoryQuery {
  /** Words that must all stand in an entry, in any case and order; without them every entry of the range is found. */
  query?: string;
  /**
   * Two entries of one path, ends included; default: its root, and the leaf. Where `from` is not above `to` it is `from`
   * alone. Without a range all branches are searched.
   */
  range?: { from?: string; to?: string };
  /** The newest entries found, at most. Default 10. */
  limit?: number;
}

/** An original entry of the session. */
export interface HistoryHit {
  entryId: string;
  role: string;
  /** What it says, whole: texts, then calls. */
  text: string;
  timestamp: string;
  /** Whether a summary stands for it at the leaf. */
  covered: boolean;
  /** Whether it is on the path of the leaf; false: another branch. */
  onPath: boolean;
}

const DEFAULT_LIMIT = 10;

/**
 * The original entries of a session: of the path, of what was compacted away, of other branches. Oldest first.
 * @throws SessionTreeError `unknown-entry` for an end of the range that is not there
 */
export function queryHistory(
  session: ReadableSession,
  { query = "", range, limit = DEFAULT_LIMIT }: HistoryQuery,
): HistoryHit[] {
  const { tree, leafId } = session;
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const archived = archivedRows(session);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const hits: HistoryHit[] = [];
  for (const row of rowsNewestFirst(session, range)) {
    if (hits.length >= limit) break;
    if (!saysSomething(tree, row)) continue;
    const entry = tree.entryAt(row);
    const said = sayingOf(entry);
    if (!said || !words.every((word) => said.text.toLowerCase().includes(word))) continue;
    hits.push({
      entryId: entry.id,
      ...said,
      timestamp: entry.timestamp,
      covered: archived.has(row),
      onPath: isOnPath(tree, row, leafRow),
    });
  }
  return hits.reverse();
}

function rowsNewestFirst(session: ReadableSession, range: HistoryQuery["range"]): Iterable<number> {
  const { tree, leafId } = session;
  if (!range) return countingDown(tree.length - 1);
  const from = range.from === undefined ? 0 : tree.row(range.from);
  const end = range.to ?? leafId;
  const rows = end === null ? [] : pathRows(tree, tree.row(end)).filter((row) => row >= from);
  // Of two branches there is no stretch: what is left is the entry that was named.
  const isAbove = range.from === undefined || rows[0] === from;
  return (isAbove ? rows : [from]).reverse();
}

function* countingDown(from: number): Generator<number> {
  for (let row = from; row >= 0; row--) yield row;
}

/** What an entry says by itself, whatever edits say of it. */
function sayingOf(entry: Entry): { role: string; text: string } | undefined {
  const kind = kindOf(entry);
  if (kind.problem?.(entry)) return undefined;
  const messages = kind.toMessages?.(entry) ?? [];
  const text = messages
    .flatMap((message) => [
      messageText(message),
      ...toolCalls(message).map(
        ({ name, arguments: given }) => `${fieldText(name)}(${JSON.stringify(given ?? {})})`,
      ),
    ])
    .filter((part) => part !== "")
    .join("\n");
  return messages[0] && text !== "" ? { role: messages[0].role, text } : undefined;
}
