import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
import type { EntryRows } from "./leaf.ts";
import { ORPHAN, ROOT } from "./row-index.ts";

/** Entries at hand, in file order, as rows. A reference means the nearest entry above the one that refers. */
export class ArrayRows implements EntryRows {
  readonly index: EntryRows["index"];
  readonly #entries: readonly Entry[];
  /** For each id, the positions it has, in order. */
  readonly #positions = new Map<string, number[]>();

  constructor(entries: readonly Entry[]) {
    this.#entries = entries;
    const parents = new Int32Array(entries.length);
    for (const [at, { id, parentId }] of entries.entries()) {
      parents[at] = parentId === null ? ROOT : (this.#positions.get(parentId)?.at(-1) ?? ORPHAN);
      const positions = this.#positions.get(id);
      if (positions) positions.push(at);
      else this.#positions.set(id, [at]);
    }
    this.index = {
      parent: (row) => parents[row]!,
      rowAbove: (id, row) => this.#positions.get(id)?.findLast((at) => at < row) ?? -1,
    };
  }

  kindAt(row: number) {
    return kindOf(this.#entries[row]!);
  }

  entryAt(row: number): Entry {
    return this.#entries[row]!;
  }

  /** The newest position of an id; -1 when there is none. */
  rowOf(id: string): number {
    return this.#positions.get(id)?.at(-1) ?? -1;
  }
}
