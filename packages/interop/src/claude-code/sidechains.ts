import { LineKind, LineMark } from "./line-kind.ts";
import type { LineTable } from "./line-table.ts";

/** A row of the conversation itself. */
export const MAIN = -1;

/**
 * Which sub-agent a row belongs to: the row its run begins with, or {@link MAIN}. Old versions wrote the runs of
 * sub-agents between the lines of the conversation; a file that holds nothing else is one run, and its own conversation.
 */
export function sidechains(table: LineTable): Int32Array {
  const runs = new Int32Array(table.length).fill(MAIN);
  let hasMain = false;
  for (let row = 0; row < table.length && !hasMain; row++)
    hasMain = table.kind(row) !== LineKind.aside && !table.has(row, LineMark.sidechain);
  if (!hasMain) return runs;
  const walked: number[] = [];
  for (let row = 0; row < table.length; row++) {
    let at = row;
    while (isSide(table, at) && runs[at] === MAIN) {
      walked.push(at);
      // Claimed while the walk is under way, so that a circle ends it.
      runs[at] = row;
      const parent = table.parent(at);
      if (parent < 0 || !isSide(table, parent)) break;
      at = parent;
    }
    const first = walked.at(-1);
    if (first === undefined) continue;
    // The walk ended at the first row of a run, or at a row whose run is known.
    const run = at === first || runs[at] === row ? first : runs[at]!;
    for (const member of walked) runs[member] = run;
    walked.length = 0;
  }
  return runs;
}

function isSide(table: LineTable, row: number): boolean {
  return table.kind(row) !== LineKind.aside && table.has(row, LineMark.sidechain);
}
