import { isOnPath } from "./path.ts";
import { isInWindow, type PathWindow } from "./path-window.ts";
import type { AppendSite } from "./prepare-append.ts";
import type { Tree } from "./tree.ts";

/** A session as an append sees it: asks the window first, and for the whole tree only when that cannot tell. */
export function appendSite(session: {
  readonly leafId: string | null;
  readonly window: PathWindow;
  readonly tree: Tree;
  placeOf(id: string): string | null;
}): AppendSite {
  const { leafId, window } = session;
  return {
    leafId,
    has: (id) => isInWindow(window, id) || session.tree.has(id),
    placeOf: (id) => session.placeOf(id),
    isOnPath(id, from) {
      if (from === null) return false;
      if (from === leafId && isInWindow(window, id)) return true;
      const { tree } = session;
      return tree.has(id) && tree.has(from) && isOnPath(tree, tree.row(id), tree.row(from));
    },
  };
}
