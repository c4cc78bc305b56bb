import { compaction, contextOfPath, pathWindowAt, type Tree } from "@espalier/session-tree";
import { holds, type ReadableSession, saysSomething } from "./session-summary.ts";

/**
 * Whether an entry is on the path of a leaf (default: the session's) and only a summary speaks for it there (seed 000's
 * `is_archived`): it stands before what the newest compaction keeps, or an edit took it out of that. False for entries
 * of other branches.
 *
 * @throws SessionTreeError `unknown-entry`
 */
export function isArchived(
  session: ReadableSession,
  entryId: string,
  leafId: string | null = session.leafId,
): boolean {
  return archivedRows(session, leafId).has(session.tree.row(entryId));
}

/** {@link isArchived} for many entries of one leaf, by their rows: the path is walked once. */
export function archivedRows(
  { tree, leafId: leafOfSession }: ReadableSession,
  leafId: string | null = leafOfSession,
): ArchivedRows {
  const archived = new Uint8Array(tree.length);
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const { compactionRow, firstKeptRow } = newestCompaction(tree, leafRow);
  const shown = compactionRow < 0 ? undefined : shownRows(tree, leafRow);
  let count = 0;
  for (let row = compactionRow; row >= 0; row = tree.index.parent(row)) {
    const isTakenOut = row < compactionRow && saysSomething(tree, row) && !shown!.has(row);
    if (row >= firstKeptRow && !isTakenOut) continue;
    archived[row] = 1;
    count++;
  }
  return { compactionRow, count, has: (row) => archived[row] === 1 };
}

/** What only a summary speaks for, at one leaf. */
export interface ArchivedRows {
  /** The compaction that counts there; -1 when none does. */
  readonly compactionRow: number;
  /** How many entries are archived. */
  readonly count: number;
  has(row: number): boolean;
}

/** The newest compaction of a path that names something above it. */
function newestCompaction(tree: Tree, leafRow: number): { compactionRow: number; firstKeptRow: number } {
  for (let row = leafRow; row >= 0; row = tree.index.parent(row)) {
    if (tree.kindAt(row).type !== compaction.type) continue;
    const entry = tree.entryAt(row);
    if (!compaction.is(entry) || compaction.problem?.(entry) || !holds(tree, entry, row)) continue;
    const { id, firstKeptEntryId } = entry;
    const firstKeptRow = firstKeptEntryId === id ? row : tree.index.rowAbove(firstKeptEntryId, row);
    return { compactionRow: row, firstKeptRow };
  }
  return { compactionRow: -1, firstKeptRow: -1 };
}

/** The rows of entries that speak in the context of a leaf. */
function shownRows(tree: Tree, leafRow: number): ReadonlySet<number> {
  const window = pathWindowAt(tree, leafRow);
  const { sources } = contextOfPath(window.entries, window.before);
  return new Set(sources.map((id) => tree.index.rowOf(id)));
}
