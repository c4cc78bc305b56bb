import {
  branchSummary,
  isMessage,
  isOnPath,
  leaf,
  leafRowAt,
  promptText,
  type Tree,
} from "@espalier/session-tree";

/** The last thing somebody did that can be taken back. */
export interface LastAct {
  /** The entry that stands for it. */
  entryId: string;
  /** Where the leaf was before; null before the first entry. */
  backTo: string | null;
  /** The text of the prompt that is taken back; null for a navigation. */
  editorText: string | null;
}

/**
 * Finds the newest navigation, or prompt on the leaf's path, that was not taken back yet. Undoing twice goes back two
 * steps: an undo names what it undid, and is itself no act.
 */
export function lastAct(tree: Tree, leafId: string | null): LastAct | undefined {
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const undone = new Set<string>();
  for (let row = tree.length - 1; row >= 0; row--) {
    const { type } = tree.kindAt(row);
    if (type !== leaf.type && type !== branchSummary.type && type !== "message") continue;
    const entry = tree.entryAt(row);
    if (leaf.is(entry) && entry.undoes !== undefined) undone.add(entry.undoes);
    else if (undone.has(entry.id)) continue;
    else if (leaf.is(entry) || branchSummary.is(entry)) {
      const before = leafRowAt(tree, row - 1);
      return { entryId: entry.id, backTo: before < 0 ? null : tree.idAt(before), editorText: null };
    } else if (isMessage(entry, "user") && isOnPath(tree, row, leafRow)) {
      return { entryId: entry.id, backTo: tree.parentIdAt(row), editorText: promptText(entry) };
    }
  }
  return undefined;
}
