import { isOnPath, type Tree } from "@espalier/session-tree";

/** How rows stand to a leaf. */
export interface PathRows {
  /** 1 for rows on the leaf's path. */
  onPath: Uint8Array;
  /** The compaction that counts there; -1 when none does. */
  compactionRow: number;
  /** Rows of the path above this one are hidden from the model by it; 0 when nothing is. */
  firstKeptRow: number;
}

/** Marks the path of a leaf, and what the newest compaction on it hides. */
export function pathRowsOf(tree: Tree, leafId: string | null): PathRows {
  const onPath = new Uint8Array(tree.length);
  const found: PathRows = { onPath, compactionRow: -1, firstKeptRow: 0 };
  for (let row = leafId === null ? -1 : tree.row(leafId); row >= 0; row = tree.index.parent(row)) {
    onPath[row] = 1;
    if (found.compactionRow >= 0) continue;
    const firstKept = firstKeptBy(tree, row);
    if (firstKept >= 0) Object.assign(found, { compactionRow: row, firstKeptRow: firstKept });
  }
  return found;
}

/** True when the model at the leaf no longer reads this row, because a compaction stands for it. */
export function isArchived({ onPath, firstKeptRow }: PathRows, row: number): boolean {
  return onPath[row] === 1 && row < firstKeptRow;
}

/** The row from which a compaction keeps its path; -1 for other entries, and for one that names nothing on its path. */
function firstKeptBy(tree: Tree, row: number): number {
  const kind = tree.kindAt(row);
  if (!kind.firstKept) return -1;
  const entry = tree.entryAt(row);
  if (kind.problem?.(entry)) return -1;
  const firstKept = kind.firstKept(entry);
  if (firstKept === entry.id) return row;
  const kept = tree.index.rowAbove(firstKept, row);
  return kept >= 0 && isOnPath(tree, kept, row) ? kept : -1;
}
