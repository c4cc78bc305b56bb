import { compaction, type Entry, entryKinds, kindOf, type RowIndex } from "@espalier/session-tree";
import type { ScratchArea } from "./scratch/scratch-area.ts";

/** What a report counts in a session. */
export interface SessionCounts {
  entries: number;
  /** Ends of the tree: as many branches there are. */
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
    if (!kindOf(entry).movesLeaf) return;
    if (entry.parentId !== null) this.#tips.delete(entry.parentId);
    this.#tips.add(entry.id);
  }

  get branches(): number {
    return this.#tips.size;
  }
}

/** Counts a session whose rows are known. */
export function countRows(index: RowIndex, area: ScratchArea): SessionCounts {
  /** 1 where an entry that moves the leaf stands below. */
  const isFollowed = area.bytes();
  let branches = 0;
  let compactions = 0;
  for (let row = index.length - 1; row >= 0; row--) {
    const { type, movesLeaf } = entryKinds[index.kind(row)]!;
    if (type === compaction.type) compactions++;
    const followed = isFollowed.get(row) === 1;
    if (movesLeaf && !followed) branches++;
    const parent = index.parent(row);
    if (parent >= 0 && (movesLeaf || followed)) isFollowed.set(parent, 1);
  }
  area.free(isFollowed);
  return { entries: index.length, branches, compactions };
}
