import type { CompactionDetails } from "@espalier/compaction";
import {
  branchSummary,
  compaction,
  contextEdit,
  type Entry,
  isMessage,
  isOnPath,
  leaf,
  leafRowAt,
  promptText,
  type Tree,
} from "@espalier/session-tree";

const ACTS: ReadonlySet<string> = new Set([
  leaf.type,
  branchSummary.type,
  compaction.type,
  contextEdit.type,
  "message",
]);

/** The last thing somebody did that can be taken back. */
export interface LastAct {
  /** The entry that stands for it. */
  entryId: string;
  /** Where the leaf was before; null before the first entry. */
  backTo: string | null;
  /** The text of the prompt that is taken back; null for every other act. */
  editorText: string | null;
}

/**
 * Finds the newest navigation, or prompt, compaction or hiding on the leaf's path, that was not taken back yet.
 * Compactions and edits that were made because the context was long are nobody's act. Undoing twice goes back two steps:
 * an undo names what it undid, and is itself no act.
 */
export function lastAct(tree: Tree, leafId: string | null): LastAct | undefined {
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const undone = new Set<string>();
  for (let row = tree.length - 1; row >= 0; row--) {
    const { type } = tree.kindAt(row);
    if (!ACTS.has(type)) continue;
    const entry = tree.entryAt(row);
    if (leaf.is(entry) && entry.undoes !== undefined) undone.add(entry.undoes);
    else if (undone.has(entry.id)) continue;
    // One that is not sound has moved the leaf all the same.
    else if (type === leaf.type || type === branchSummary.type) {
      const before = leafRowAt(tree, row - 1);
      return { entryId: entry.id, backTo: before < 0 ? null : tree.idAt(before), editorText: null };
    } else if ((isMessage(entry, "user") || isAskedFor(entry)) && isOnPath(tree, row, leafRow)) {
      const editorText = isMessage(entry, "user") ? promptText(entry) : null;
      return { entryId: entry.id, backTo: tree.parentIdAt(row), editorText };
    }
  }
  return undefined;
}

/** Whether somebody asked for this compaction or edit. Only ours say so: those of another program are passed over. */
function isAskedFor(entry: Entry): boolean {
  if (contextEdit.is(entry)) return entry.reason === "manual";
  if (!compaction.is(entry)) return false;
  return (entry.details as Partial<CompactionDetails> | null | undefined)?.reason === "manual";
}
