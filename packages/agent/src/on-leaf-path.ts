import { isOnPath, type SessionTree } from "@espalier/session-tree";

/** Whether only the whole tree can tell if an entry is on the leaf's path: a compaction may have hidden it. */
export function isOutOfSight({ window }: SessionTree, id: string): boolean {
  return !window.complete && !window.entries.some((entry) => entry.id === id);
}

/** Whether an entry is on the leaf's path. Throws `not-loaded` where it {@link isOutOfSight} of a log that lies elsewhere. */
export function isOnLeafPath(core: SessionTree, id: string): boolean {
  if (!isOutOfSight(core, id)) return core.window.entries.some((entry) => entry.id === id);
  return core.leafId !== null && isOnPath(core.tree, core.tree.row(id), core.tree.row(core.leafId));
}
