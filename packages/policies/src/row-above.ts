import type { Tree } from "@espalier/session-tree";

/**
 * The nearest row above `row` that has this id and is on the path in question; -1 when there is none. A damaged log may
 * have an id twice, on other branches too.
 */
export function rowAbove(
  { index }: Pick<Tree, "index">,
  id: string,
  row: number,
  isOnPath: (row: number) => boolean,
): number {
  let above = index.rowAbove(id, row);
  while (above >= 0 && !isOnPath(above)) above = index.rowAbove(id, above);
  return above;
}
