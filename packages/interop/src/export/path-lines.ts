import { label, type Tree } from "@espalier/session-tree";
import type { ExportSource } from "./export-source.ts";

/**
 * The rows that make a session of one path: the path itself, and what stands beside it and speaks of it alone (labels,
 * names, usage). Parents come before children, and the path's end is where opening the rows as a log would stand.
 */
export function rowsAlong(source: ExportSource): number[] {
  const { tree, endRow } = source;
  const path = source.pathRows();
  const taken = new Uint8Array(tree.length);
  for (const row of path) taken[row] = 1;
  const before: number[] = [];
  const after: number[] = [];
  // What hangs below the end stands behind it; the rest stands before it, or the last line would be another place.
  const belowEnd = new Uint8Array(tree.length);
  for (let row = 0; row < tree.length; row++) {
    const parent = tree.index.parent(row);
    if (parent === endRow || (parent >= 0 && belowEnd[parent] === 1)) belowEnd[row] = 1;
    if (row === endRow) continue;
    if (taken[row] !== 1) {
      if (!isBeside(tree, row, taken)) continue;
      taken[row] = 1;
    }
    (belowEnd[row] === 1 ? after : before).push(row);
  }
  return endRow < 0 ? [...before, ...after] : [...before, endRow, ...after];
}

/** True for an entry beside the conversation whose parent is taken, and, if it is a label, whose target is. */
function isBeside(tree: Tree, row: number, taken: Uint8Array): boolean {
  const parent = tree.index.parent(row);
  const kind = tree.kindAt(row);
  if (parent < 0 || taken[parent] !== 1 || kind.movesLeaf || kind.leafTarget) return false;
  if (kind.type !== label.type) return true;
  const entry = tree.entryAt(row);
  if (!label.is(entry)) return false;
  const target = tree.index.rowAbove(entry.targetId, row);
  return target >= 0 && taken[target] === 1;
}
