import type { Entry, EntryKind } from "./entry.ts";
import { entryKinds } from "./entry-kinds.ts";
import type { Tree } from "./tree.ts";

/** Rows of the path that ends in `row`, root first. */
export function pathRows(tree: Tree, row: number): number[] {
  const rows: number[] = [];
  for (let at = row; at >= 0; at = tree.index.parent(at)) rows.push(at);
  return rows.reverse();
}

/** As {@link pathRows}, rows of some kinds alone: what a long path has of them is found without reading any line. */
export function pathRowsOf(tree: Tree, row: number, isWanted: (kind: EntryKind) => boolean): Int32Array {
  return tree.index.pathRows(row, entryKinds.map(isWanted));
}

/** Entries of the path that ends in the entry with this id, root first; null gives none. Throws `unknown-entry`. */
export function pathOf(tree: Tree, id: string | null): Entry[] {
  if (id === null) return [];
  return pathRows(tree, tree.row(id)).map((row) => tree.entryAt(row));
}

/** The row of the deepest entry that is on both paths; -1 when they have none in common. */
export function commonAncestorRow(tree: Tree, a: number, b: number): number {
  // A parent's row is always smaller than its child's: the larger of the two can be left behind.
  while (a !== b) {
    if (a < 0 || b < 0) return -1;
    if (a > b) a = tree.index.parent(a);
    else b = tree.index.parent(b);
  }
  return a < 0 ? -1 : a;
}

/** The deepest entry on both paths; null when there is none. Throws `unknown-entry`. */
export function commonAncestor(tree: Tree, a: string | null, b: string | null): string | null {
  if (a === null || b === null) return null;
  const row = commonAncestorRow(tree, tree.row(a), tree.row(b));
  return row < 0 ? null : tree.idAt(row);
}

/** True when `ancestor` is on the path of `row` (an entry is on its own path). */
export function isOnPath(tree: Tree, ancestor: number, row: number): boolean {
  while (row > ancestor) row = tree.index.parent(row);
  return row === ancestor;
}
