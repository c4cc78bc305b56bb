import { type ContextEdit, kindOf, type SessionTree } from "@espalier/session-tree";

/** The edits of an entry on the leaf's path, newest first: only edits between the two are read. */
export function* editsOf({ window, tree }: SessionTree, id: string): Generator<ContextEdit> {
  if (window.leafId === null || !tree.has(id)) return;
  const target = tree.row(id);
  for (let row = tree.row(window.leafId); row > target; row = tree.index.parent(row)) {
    if (!tree.kindAt(row).edit) continue;
    const entry = tree.entryAt(row);
    const kind = kindOf(entry);
    const found = kind.problem?.(entry) ? undefined : kind.edit?.(entry);
    if (found?.targetId === id) yield found;
  }
}
