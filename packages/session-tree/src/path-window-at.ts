import { type PathWindow, PathWindowBuilder } from "./path-window.ts";
import type { Tree } from "./tree.ts";

/** The end of the path of a row, read from the index: only lines that a context needs. -1 gives an empty window. */
export function pathWindowAt(tree: Tree, row: number): PathWindow {
  const builder = new PathWindowBuilder();
  for (let at = row; at >= 0 && !builder.done; at = tree.index.parent(at)) {
    if (builder.needs(tree.kindAt(at).type)) builder.take(tree.entryAt(at));
  }
  return builder.finish(row < 0 ? null : tree.idAt(row));
}
