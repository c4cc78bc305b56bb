import { ID_LENGTH } from "@espalier/session-tree";
import { type Hash, HashRuns } from "./hash-runs.ts";
import type { ScratchArea, ScratchColumn } from "./space.ts";

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

/**
 * Tells of most ids that they were never added, and never of one that was: bits in memory, as many as it was made with,
 * however many ids there are (a Bloom filter of three bits an id).
 */
class IdFilter {
  readonly #words: Uint32Array;
  readonly #mask: number;

  /** @param bits how many: a power of two, at least 32. With 16 for each id, one in 200 of the others is not told apart */
  constructor(bits: number) {
    this.#words = new Uint32Array(bits >>> 5);
    this.#mask = bits - 1;
  }

  add({ high, low }: Hash): void {
    this.#set(low);
    this.#set(high);
    this.#set(third(high, low));
  }

  /** False for an id that was never added. */
  mayHave({ high, low }: Hash): boolean {
    return this.#has(low) && this.#has(high) && this.#has(third(high, low));
  }

  #set(hash: number): void {
    const bit = hash & this.#mask;
    this.#words[bit >>> 5]! |= 1 << (bit & 31);
  }

  #has(hash: number): boolean {
    const bit = hash & this.#mask;
    return (this.#words[bit >>> 5]! & (1 << (bit & 31))) !== 0;
  }
}

/** A third position out of the two halves: their upper bits, which the other two positions leave out. */
const third = (high: number, low: number): number => (high >>> 16) ^ ((low >>> 16) << 9);

/** Characters in a word: those of an id are below 256. */
const PER_WORD = 4;

/** An id as this package derives them, for each row; null where none was set. */
export class IdColumn {
  readonly #words: readonly ScratchColumn<Uint32Array>[];

  constructor(area: ScratchArea) {
    this.#words = Array.from({ length: ID_LENGTH / PER_WORD }, () => area.words());
  }

  get(row: number): string | null {
    let id = "";
    for (const column of this.#words) {
      const word = column.get(row);
      if (word === 0) return null;
      id += String.fromCharCode(word >>> 24, (word >>> 16) & 255, (word >>> 8) & 255, word & 255);
    }
    return id;
  }

  set(row: number, id: string | null): void {
    for (const [at, column] of this.#words.entries()) {
      let word = 0;
      for (let next = 0; id !== null && next < PER_WORD; next++)
        word = (word << 8) | id.charCodeAt(at * PER_WORD + next);
      column.set(row, word);
    }
  }
}

/** How many there is room for: a power of two. What a line follows stands a few lines above it, nearly always. */
const PLACES = 1 << 13;

/** The rows of late by hash. Each hash has one place, and whoever comes later takes it. */
class RecentRows {
  readonly #high = new Int32Array(PLACES);
  readonly #low = new Int32Array(PLACES);
  readonly #row = new Int32Array(PLACES).fill(-1);

  /** -1 when it is not, or no more, there. */
  find({ high, low }: Hash): number {
    const place = low & (PLACES - 1);
    return this.#high[place] === high && this.#low[place] === low ? this.#row[place]! : -1;
  }

  set({ high, low }: Hash, row: number): void {
    const place = low & (PLACES - 1);
    this.#high[place] = high;
    this.#low[place] = low;
    this.#row[place] = row;
  }
}
