import { type Hash, HashRuns } from "./hash-runs.ts";
import { IdFilter } from "./id-filter.ts";
import { RecentRows } from "./recent-rows.ts";
import type { ScratchArea } from "./scratch-area.ts";
import type { ScratchColumn } from "./scratch-column.ts";

/** As many rows are told apart by a small filter; then comes the large one. */
const FEW = 1 << 12;
const FEW_BITS = 1 << 16;

/** Bits of the large filter: 2 MiB. */
const MANY_BITS = 1 << 24;

/**
 * The newest row with an id, for any number of ids, found while rows are added. Most questions are answered without a
 * search: ids that are new, the last one, those of late, and those that are asked for in the order in which they stand.
 */
export class IdRows {
  /** How many rows there are. */
  length = 0;
  readonly #high: ScratchColumn<Int32Array>;
  readonly #low: ScratchColumn<Int32Array>;
  /** The first row of each id. */
  readonly #firstRows: HashRuns;
  readonly #recent = new RecentRows();
  #filter = new IdFilter(FEW_BITS);
  /** The hash of the last row. */
  #lastHigh = 0;
  #lastLow = 0;
  /** The row that was found last. */
  #found = -1;
  /** Whether rows share an id. These columns are empty otherwise. */
  #hasTwins = false;
  /** Of a row whose id an older one has: the first of those. */
  readonly #first: ScratchColumn<Int32Array>;
  /** Of the first row of an id that others have too: the newest of those. */
  readonly #newest: ScratchColumn<Int32Array>;
  /** The row with the same id above. */
  readonly #older: ScratchColumn<Int32Array>;

  constructor(area: ScratchArea) {
    this.#high = area.integers();
    this.#low = area.integers();
    this.#firstRows = new HashRuns(area);
    this.#first = area.integers(-1);
    this.#newest = area.integers(-1);
    this.#older = area.integers(-1);
  }

  /** The newest row with this id; -1 when there is none. */
  find(hash: Hash): number {
    if (this.length === 0) return -1;
    if (this.#lastHigh === hash.high && this.#lastLow === hash.low) return this.length - 1;
    if (!this.#filter.mayHave(hash)) return -1;
    const row = this.#search(hash);
    if (row < 0) return -1;
    this.#found = row;
    return this.#newestLike(row);
  }

  /** Adds the next row under an id; `newest` is what {@link find} says of it. */
  add(hash: Hash, newest: number): void {
    const row = this.length++;
    this.#high.set(row, hash.high);
    this.#low.set(row, hash.low);
    this.#lastHigh = hash.high;
    this.#lastLow = hash.low;
    if (newest < 0) this.#firstRows.add(hash, row);
    else this.#addTwin(row, newest);
    this.#recent.set(hash, row);
    if (this.length === FEW) this.#widen();
    else this.#filter.add(hash);
  }

  /** Whether a row has this id. */
  isOf(row: number, { high, low }: Hash): boolean {
    return this.#high.get(row) === high && this.#low.get(row) === low;
  }

  /** The newest row above `row` that has the id of `newest`, which is the newest with it; -1 when there is none. */
  above(newest: number, row: number): number {
    let at = newest;
    while (at >= row) at = this.#older.get(at);
    return at;
  }

  #search(hash: Hash): number {
    const next = this.#found + 1;
    if (next < this.length && this.isOf(next, hash)) return next;
    if (next > 0 && this.isOf(next - 1, hash)) return next - 1;
    const recent = this.#recent.find(hash);
    return recent >= 0 ? recent : this.#firstRows.find(hash);
  }

  #newestLike(row: number): number {
    if (!this.#hasTwins) return row;
    const first = this.#first.get(row);
    const newest = this.#newest.get(first < 0 ? row : first);
    return newest < 0 ? row : newest;
  }

  #addTwin(row: number, newest: number): void {
    this.#hasTwins = true;
    const above = this.#first.get(newest);
    const first = above < 0 ? newest : above;
    this.#first.set(row, first);
    this.#newest.set(first, row);
    this.#older.set(row, newest);
  }

  #widen(): void {
    this.#filter = new IdFilter(MANY_BITS);
    for (let row = 0; row < this.length; row++)
      this.#filter.add({ high: this.#high.get(row), low: this.#low.get(row) });
  }
}
