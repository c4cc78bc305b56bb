import { isOnPath } from "./path.ts";
import { isInWindow, type PathWindow } from "./path-window.ts";
import type { Tree } from "./tree.ts";

/** What an append is checked against. */
export interface AppendSite {
  leafId: string | null;
  /** Whether the log has an entry with this id. */
  has(id: string): boolean;
  /** Whether `id` is on the path that ends in `leafId`. */
  isOnPath(id: string, leafId: string | null): boolean;
  /** Where the leaf comes to stand when it is moved to an entry of the log: there, or at its nearest ancestor that can be one. */
  placeOf(id: string): string | null;
}

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
