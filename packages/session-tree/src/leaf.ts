import type { Tree } from "./tree.ts";

/** The row under which the next entry is appended to a log as it was when `lastRow` was its last; -1 before the first entry. */
export function leafRowAt(tree: Tree, lastRow: number): number {
  // A `leaf` line that names nothing above it counts for nothing: the line before it decides.
  for (let row = lastRow; row >= 0; row--) {
    const leaf = leafSetBy(tree, row);
    if (leaf !== undefined) return leaf;
  }
  return -1;
}

/** Where a row leaves the leaf: at itself, at the place it names, or at the nearest ancestor that can be one. */
function leafSetBy(tree: Tree, row: number): number | undefined {
  const kind = tree.kindAt(row);
  if (!kind.leafTarget) return movingRow(tree, row);
  const target = kind.leafTarget(tree.entryAt(row));
  if (target === null) return -1;
  const targetRow = tree.index.rowAbove(target, row);
  return targetRow < 0 ? undefined : movingRow(tree, targetRow);
}

/** The row itself when its kind moves the leaf, else its nearest ancestor that does; -1 when there is none. */
export function movingRow(tree: Tree, row: number): number {
  while (row >= 0 && !tree.kindAt(row).movesLeaf) row = tree.index.parent(row);
  return Math.max(row, -1);
}

/** The leaf that opening the log gives; null before the first entry. */
export function leafOf(tree: Tree): string | null {
  const row = leafRowAt(tree, tree.lastRow);
  return row < 0 ? null : tree.idAt(row);
}
