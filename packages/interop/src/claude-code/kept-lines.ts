import type { Boundary } from "./boundaries.ts";
import type { Placement } from "./placement.ts";
import type { Trunk } from "./trunk.ts";

/** What a compaction leaves in the context, on its path. */
export interface KeptLines {
  /** The row of the first entry that stays; -1 when nothing does. */
  first: number;
  /** Rows behind the first one that say something and do not stay. */
  leftOut: number[];
  /** How many of the lines to be kept are not on the path. */
  elsewhere: number;
}

/**
 * Finds the lines that a compaction keeps on the path that ends in `above`. A compaction here keeps everything from one
 * entry on; there it names each line. What lies between and is not named has to be left out one by one.
 */
export function keptLines(
  boundary: Boundary | undefined,
  above: number,
  trunk: Trunk,
  placement: Placement,
): KeptLines {
  const kept = new Set(boundary?.kept.map((row) => placement.entryRow(row)));
  const lowest = lowestOf(kept);
  const path: number[] = [];
  let missing = kept.size;
  for (let row = above; missing > 0 && row >= lowest; row = trunk.parent(row)) {
    path.push(row);
    if (kept.has(row)) missing--;
  }
  const firstAt = path.findLastIndex((row) => kept.has(row));
  const leftOut = path.slice(0, Math.max(0, firstAt)).filter((row) => !kept.has(row) && trunk.speaks(row));
  return { first: path[firstAt] ?? -1, leftOut: leftOut.reverse(), elsewhere: missing };
}

/** Those of some rows that are on the path that ends in `above`. */
export function rowsOnPath(rows: readonly number[], above: number, trunk: Trunk): number[] {
  if (rows.length === 0) return [];
  const lowest = lowestOf(rows);
  const path = new Set<number>();
  for (let row = above; row >= lowest; row = trunk.parent(row)) path.add(row);
  return rows.filter((row) => path.has(row));
}

/** A loop: a call has no room for a hundred thousand arguments. */
function lowestOf(rows: Iterable<number>): number {
  let lowest = Number.POSITIVE_INFINITY;
  for (const row of rows) lowest = Math.min(lowest, row);
  return lowest;
}
