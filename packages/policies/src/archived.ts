import { contextEdit, type Entry, pathRowsOf, type Tree } from "@espalier/session-tree";
import { rowAbove } from "./row-above.ts";
import { type ReadableSession, saysSomething } from "./session-summary.ts";

/**
 * Whether an entry is on the path of a leaf (default: the session's) and only a summary speaks for it there (origins 000's
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

/**
 * {@link isArchived} for many entries of one leaf, by their rows. The path is walked by what the index knows of it; of its
 * lines the newest compaction and the edits behind what it keeps are read, and no message.
 */
export function archivedRows(
  { tree, leafId: leafOfSession }: ReadableSession,
  leafId: string | null = leafOfSession,
): ArchivedRows {
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const path = new Path(tree, leafRow);
  const { compactionRow, firstKeptRow } = newestCompaction(path);
  const leftOut = rowsLeftOut(path, firstKeptRow, compactionRow, isNobodysAct);
  const archived = new Uint8Array(compactionRow + 1);
  let count = 0;
  for (let row = compactionRow; row >= 0; row = tree.index.parent(row)) {
    if (row >= firstKeptRow && !leftOut.has(row)) continue;
    archived[row] = 1;
    count++;
  }
  return { compactionRow, count, has: (row) => archived[row] === 1 };
}

/**
 * Rows of a leaf's path (default: the session's) that would speak, had the newest edit of them not left them out, whoever
 * left them out.
 *
 * @throws SessionTreeError `unknown-entry`
 */
export function rowsHidden(
  { tree, leafId: leafOfSession }: ReadableSession,
  leafId: string | null = leafOfSession,
): ReadonlySet<number> {
  return rowsLeftOut(new Path(tree, leafId === null ? -1 : tree.row(leafId)), 0, tree.length, () => true);
}

/** What only a summary speaks for, at one leaf. */
export interface ArchivedRows {
  /** The compaction that counts there; -1 when none does. */
  readonly compactionRow: number;
  /** How many entries are archived. */
  readonly count: number;
  /** Whether the entry of this row is archived. */
  has(row: number): boolean;
}

/** The path that ends in a row, with what changes the context of those above it. */
class Path {
  readonly tree: Tree;
  /** Rows of compactions and edits, newest first. */
  readonly changing: Int32Array;
  readonly #isOn: Uint8Array;

  constructor(tree: Tree, leafRow: number) {
    this.tree = tree;
    this.changing = pathRowsOf(tree, leafRow, ({ firstKept, edit }) => Boolean(firstKept ?? edit)).reverse();
    this.#isOn = new Uint8Array(leafRow + 1);
    for (let row = leafRow; row >= 0; row = tree.index.parent(row)) this.#isOn[row] = 1;
  }

  /** The nearest row above `row` on the path that has this id; -1 when there is none. */
  rowAbove(id: string, row: number): number {
    return rowAbove(this.tree, id, row, (above) => this.#isOn[above] === 1);
  }
}

/** The newest compaction of a path that names something above it, or itself. */
function newestCompaction(path: Path): { compactionRow: number; firstKeptRow: number } {
  for (const row of path.changing) {
    const kind = path.tree.kindAt(row);
    if (!kind.firstKept) continue;
    const entry = path.tree.entryAt(row);
    if (kind.problem?.(entry)) continue;
    const firstKept = kind.firstKept(entry);
    const firstKeptRow = firstKept === entry.id ? row : path.rowAbove(firstKept, row);
    if (firstKeptRow >= 0) return { compactionRow: row, firstKeptRow };
  }
  return { compactionRow: -1, firstKeptRow: -1 };
}

/** What somebody hid by hand is in no summary. */
const isNobodysAct = (edit: Entry): boolean => !(contextEdit.is(edit) && edit.reason === "manual");

/** Rows between two that would speak, had the newest edit of them, one that counts, not left them out. */
function rowsLeftOut(
  path: Path,
  from: number,
  to: number,
  counts: (edit: Entry) => boolean,
): ReadonlySet<number> {
  const leftOut = new Set<number>();
  const edited = new Set<number>();
  for (const row of path.changing) {
    // Nobody edits what comes later.
    if (row <= from || to < 0) break;
    const kind = path.tree.kindAt(row);
    if (!kind.edit) continue;
    const entry = path.tree.entryAt(row);
    if (kind.problem?.(entry)) continue;
    const { targetId, replacement } = kind.edit(entry);
    const target = path.rowAbove(targetId, row);
    if (target < from || target >= to || edited.has(target)) continue;
    edited.add(target);
    if (replacement === null && counts(entry) && saysSomething(path.tree, target)) leftOut.add(target);
  }
  return leftOut;
}
