import { compaction, type Entry, kindOf, type Tree, tipRows } from "@espalier/session-tree";

/** What a report counts in a session. */
export interface SessionCounts {
  entries: number;
  branches: number;
  compactions: number;
}

/** Counts a session as it is written: entries in an order in which parents come first. */
export class CountingEntries implements SessionCounts {
  entries = 0;
  compactions = 0;
  /** Entries that nothing has followed yet: as many as there are branches. */
  readonly #tips = new Set<string>();

  add(entry: Entry): void {
    this.entries++;
    if (entry.type === compaction.type) this.compactions++;
    if (!kindOf(entry.type).movesLeaf) return;
    if (entry.parentId !== null) this.#tips.delete(entry.parentId);
    this.#tips.add(entry.id);
  }

  get branches(): number {
    return this.#tips.size;
  }
}

/** Counts a session that is there already. */
export function countTree(tree: Tree): SessionCounts {
  let compactions = 0;
  for (let row = 0; row < tree.length; row++) if (tree.kindAt(row).type === compaction.type) compactions++;
  return { entries: tree.length, branches: tipRows(tree).length, compactions };
}
