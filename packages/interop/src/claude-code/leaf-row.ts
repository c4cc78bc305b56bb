import { LineMark } from "./line-kind.ts";
import type { LineTable } from "./line-table.ts";

/** The row that is the leaf, by the file: the last line with nothing below it. -1 when there is none. */
export function leafRow(table: LineTable, isOfSession: (row: number) => boolean): number {
  let last = NONE;
  for (let row = table.length - 1; row >= 0; row--) {
    if (!isOfSession(row)) continue;
    if (last === NONE) last = row;
    if (!table.has(row, LineMark.followed) && !table.has(row, LineMark.synthetic)) return row;
  }
  return last;
}

const NONE = -1;
