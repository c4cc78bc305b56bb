import { type Entry, labelsInForce, message, type Tree } from "@espalier/session-tree";
import { previewEntry } from "./entry-preview.ts";
import { isArchived, pathRowsOf } from "./path-rows.ts";

/** An entry as `tree --json` lists it; null where there is nothing to say. */
export interface TreeEntry {
  id: string;
  /** As the tree has it: null for an entry whose parent is missing. */
  parentId: string | null;
  type: string;
  role?: string | null;
  timestamp?: string | null;
  label: string | null;
  preview?: string | null;
  /** On the path of the leaf. */
  onPath: boolean;
  /** On it, and hidden from the model by a compaction. */
  archived: boolean;
}

/** All entries in file order, one at a time. `structure`: without role, timestamp and preview, so that no line is parsed. */
export function* treeEntries(tree: Tree, leafId: string | null, structure = false): Generator<TreeEntry> {
  const labels = labelsInForce(tree);
  const path = pathRowsOf(tree, leafId);
  let previousId = "";
  for (let row = 0; row < tree.length; row++) {
    const id = tree.idAt(row);
    const parent = tree.index.parent(row);
    const entry = structure ? undefined : tree.entryAt(row);
    yield {
      id,
      // Mostly an entry follows the one before it, whose id is at hand.
      parentId: parent >= 0 && parent === row - 1 ? previousId : tree.parentIdAt(row),
      type: entry?.type ?? (tree.kindAt(row).type || tree.entryAt(row).type),
      ...(entry ? { role: roleOf(entry), timestamp: entry.timestamp || null } : {}),
      label: labels.get(id)?.label ?? null,
      ...(entry ? { preview: previewEntry(entry) } : {}),
      onPath: path.onPath[row] === 1,
      archived: isArchived(path, row),
    };
    previousId = id;
  }
}

function roleOf(entry: Entry): string | null {
  return message.is(entry) ? entry.message.role : null;
}
