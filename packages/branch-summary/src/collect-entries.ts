import { commonAncestorRow, type Entry, type Tree } from "@espalier/session-tree";

/** What a branch had that the place one goes to has not. */
export interface BranchEntries {
  /** From below the common ancestor to the leaf that is left, oldest first. */
  entries: Entry[];
  /** The deepest entry on both paths; null when they share none. */
  commonAncestorId: string | null;
}

/**
 * Collects the entries that are left behind when one goes from one leaf to another entry. It reads the branch and
 * nothing else, through compactions on it.
 *
 * @param session a tree, or something that has one
 * @param oldLeafId the leaf that is left; null leaves nothing behind
 * @param targetId where one goes; null is before the first entry
 * @throws SessionTreeError `unknown-entry`
 */
export function collectEntriesForBranchSummary(
  session: Tree | { readonly tree: Tree },
  oldLeafId: string | null,
  targetId: string | null,
): BranchEntries {
  const tree = "tree" in session ? session.tree : session;
  const targetRow = targetId === null ? -1 : tree.row(targetId);
  const leafRow = oldLeafId === null ? -1 : tree.row(oldLeafId);
  const ancestor = commonAncestorRow(tree, leafRow, targetRow);
  const rows: number[] = [];
  for (let row = leafRow; row >= 0 && row !== ancestor; row = tree.index.parent(row)) rows.push(row);
  return {
    entries: rows.reverse().map((row) => tree.entryAt(row)),
    commonAncestorId: ancestor < 0 ? null : tree.idAt(ancestor),
  };
}
