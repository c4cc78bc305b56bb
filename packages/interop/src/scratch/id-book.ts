import { type Hash, HashRuns } from "./hash-runs.ts";
import { RecentRows } from "./recent-rows.ts";
import type { ScratchArea } from "./scratch-area.ts";

/**
 * Which row has an id, for any number of ids. While rows are added, only those of late are found; when all are in,
 * {@link settle} makes all of them known, and tells which ids came twice.
 */
export class IdBook {
  readonly #hash: ScratchArea["hash"];
  readonly #recent = new RecentRows();
  readonly #rows: HashRuns;
  /** Rows that ask who has an id. */
  readonly #questions: HashRuns;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#rows = new HashRuns(area);
    this.#questions = new HashRuns(area);
  }

  /** A row with this id, if it was added lately; else -1. */
  recent(id: Uint8Array): number {
    this.#hash.hash(id, 0, id.length);
    return this.#recent.find(this.#hash);
  }

  /** Adds a row, with a higher number than those before. */
  add(id: Uint8Array, row: number): void {
    this.#hash.hash(id, 0, id.length);
    this.#rows.add(this.#hash, row);
    if (this.#recent.find(this.#hash) < 0) this.#recent.set(this.#hash, row);
  }

  /** Asks for the row with this id, wherever it stands: {@link answer} tells. */
  ask(id: Uint8Array, row: number): void {
    this.#hash.hash(id, 0, id.length);
    this.#questions.add(this.#hash, row);
  }

  /** When all rows are in. Tells of each row with an id that an older row has, and of the oldest of those. */
  settle(isTwin: (row: number, first: number) => void): void {
    this.#rows.settle();
    this.#rows.forEachTwin(isTwin);
  }

  /** The oldest row for each row that asked; -1 when there is none. In no particular order. */
  answer(tell: (row: number, answer: number) => void): void {
    // In the order of the hashes, so that the pages of the answers are turned one after the other.
    this.#questions.forEach((high, low, row) => {
      tell(row, this.#rows.find({ high, low }));
    });
  }

  /** The oldest row with this id; -1 when there is none. Of all rows when they are settled. */
  rowOf(id: string): number {
    if (id === "") return -1;
    this.#hash.hashText(id);
    return this.#rows.find(this.#hash);
  }

  /** The same, for an id that was hashed in the same area. */
  rowOfHash(hash: Hash): number {
    return this.#rows.find(hash);
  }
}
