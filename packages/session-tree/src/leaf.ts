import type { Entry, EntryKind } from "./entry.ts";
import { ORPHAN, ROOT } from "./row-index.ts";
import type { Tree } from "./tree.ts";

/** Entries in file order, as the rules of the leaf need them: a `Tree` is one. */
export interface EntryRows {
  /** What answers for the entry of a row. */
  kindAt(row: number): EntryKind;
  /** The entry of a row, parsed. */
  entryAt(row: number): Entry;
  /** How rows hang together. */
  readonly index: {
    /** The row of the parent, `ROOT` or `ORPHAN`. */
    parent(row: number): number;
    /** The newest row above `row` with this id; -1 when there is none. */
    rowAbove(id: string, row: number): number;
  };
}

/**
 * The row under which the next entry is appended to a log as it was when `lastRow` was its last; -1 before the first
 * entry. A line that cannot say where the leaf is (a `leaf` that names nothing above it, an entry beside the
 * conversation whose ancestors are lost) counts for nothing: the line before it decides.
 */
export function leafRowAt(rows: EntryRows, lastRow: number): number {
  // Rows from which there is no way up to the conversation: each is climbed once, however many lines end in it.
  const lost = new Set<number>();
  for (let row = lastRow; row >= 0; row--) {
    const from = targetOf(rows, row);
    if (from === ROOT) return ROOT;
    const leaf = from === ORPHAN ? ORPHAN : climb(rows, from, lost);
    if (leaf !== ORPHAN) return leaf;
  }
  return ROOT;
}

/** The row that a line means when it says where the leaf is: its own, or for a `leaf` the one that it names. */
function targetOf(rows: EntryRows, row: number): number {
  const kind = rows.kindAt(row);
  if (!kind.leafTarget) return row;
  const target = kind.leafTarget(rows.entryAt(row));
  if (target === null) return ROOT;
  const above = rows.index.rowAbove(target, row);
  return above < 0 ? ORPHAN : above;
}

/** The row itself when its kind moves the leaf, else its nearest ancestor that does; `ROOT` or `ORPHAN` when there is none. */
function climb(rows: EntryRows, row: number, lost?: Set<number>): number {
  const climbed: number[] = [];
  let at = row;
  while (at >= 0 && !rows.kindAt(at).movesLeaf) {
    climbed.push(at);
    at = lost?.has(at) ? ORPHAN : rows.index.parent(at);
  }
  if (at === ORPHAN) for (const passed of climbed) lost?.add(passed);
  return at;
}

/** The row itself when its kind moves the leaf, else its nearest ancestor that does; -1 when there is none. */
export function movingRow(rows: EntryRows, row: number): number {
  return row < 0 ? ROOT : Math.max(climb(rows, row), ROOT);
}

/** The leaf that opening the log gives; null before the first entry. */
export function leafOf(tree: Tree): string | null {
  const row = leafRowAt(tree, tree.lastRow);
  return row < 0 ? null : tree.idAt(row);
}
