import { type ArchivedRows, archivedRows } from "@espalier/engine";
import type { Tree } from "@espalier/session-tree";

/** How rows stand to a leaf. */
export interface PathRows {
  /** 1 for rows on the leaf's path. */
  onPath: Uint8Array;
  /** Those of it that only a summary speaks for. */
  archived: ArchivedRows;
}

/** Marks the path of a leaf, and what the newest compaction on it hides. */
export function pathRowsOf(tree: Tree, leafId: string | null): PathRows {
  const onPath = new Uint8Array(tree.length);
  for (let row = leafId === null ? -1 : tree.row(leafId); row >= 0; row = tree.index.parent(row))
    onPath[row] = 1;
  return { onPath, archived: archivedRows({ tree, leafId }) };
}

/** True when the model at the leaf no longer reads this row, because a compaction stands for it. */
export const isArchived = ({ archived }: PathRows, row: number): boolean => archived.has(row);
