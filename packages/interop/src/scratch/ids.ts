import { ID_LENGTH } from "@espalier/session-tree";
import type { ScratchArea, ScratchColumn } from "./space.ts";

/** Ids for which a small filter is enough; beyond them comes the large one. */
const FEW = 1 << 12;
const FEW_BITS = 1 << 16;

/** Bits of the large filter: 2 MiB. */
const MANY_BITS = 1 << 24;

/** First row of each id, for any number of ids. New ids, and ids of recent rows, are told apart without a search. */
export class FirstRows {
  readonly #rows: HashRuns;
  readonly #recent = new RecentRows();
  #filter = new IdFilter(FEW_BITS);
  #count = 0;

  constructor(area: ScratchArea) {
    this.#rows = new HashRuns(area);
  }

  /** False for an id that was never added. */
  mayHave(hash: Hash): boolean {
    return this.#filter.mayHave(hash);
  }

  /** First row of an id; -1 when there is none. */
  find(hash: Hash): number {
    if (!this.#filter.mayHave(hash)) return -1;
    const recent = this.#recent.find(hash);
    return recent >= 0 ? recent : this.#rows.find(hash);
  }

  /** Adds the first row of an id, in ascending order of rows. */
  add(hash: Hash, row: number): void {
    this.#rows.add(hash, row);
    this.#recent.set(hash, row);
    this.#filter.add(hash.high, hash.low);
    if (++this.#count !== FEW) return;
    this.#filter = new IdFilter(MANY_BITS);
    this.#rows.forEach((high, low) => {
      this.#filter.add(high, low);
    });
  }
}

/**
 * Newest row of each id, for any number of ids, found while rows are added. Most look-ups need no search: new ids, the
 * last one, recent ones, and ids in the order of their rows.
 */
export class IdRows {
  /** Number of rows. */
  length = 0;
  readonly #high: ScratchColumn<Int32Array>;
  readonly #low: ScratchColumn<Int32Array>;
  readonly #firstRows: FirstRows;
  /** Hash of the last row. */
  #lastHigh = 0;
  #lastLow = 0;
  /** Row that was found last. */
  #found = -1;
  /** True when rows share an id. The columns below are empty otherwise. */
  #hasTwins = false;
  /** For a row whose id an older one has: the first of those. */
  readonly #first: ScratchColumn<Int32Array>;
  /** For the first row of an id that others have too: the newest of those. */
  readonly #newest: ScratchColumn<Int32Array>;
  /** Row with the same id above. */
  readonly #older: ScratchColumn<Int32Array>;

  constructor(area: ScratchArea) {
    this.#high = area.integers();
    this.#low = area.integers();
    this.#firstRows = new FirstRows(area);
    this.#first = area.integers(-1);
    this.#newest = area.integers(-1);
    this.#older = area.integers(-1);
  }

  /** Newest row with this id; -1 when there is none. */
  find(hash: Hash): number {
    if (this.length === 0) return -1;
    if (this.#lastHigh === hash.high && this.#lastLow === hash.low) return this.length - 1;
    const row = this.#firstRows.mayHave(hash) ? this.#search(hash) : -1;
    if (row < 0) return -1;
    this.#found = row;
    if (!this.#hasTwins) return row;
    const first = this.#first.get(row);
    const newest = this.#newest.get(first < 0 ? row : first);
    return newest < 0 ? row : newest;
  }

  /** Adds the next row under an id; `newest` is the result of {@link find}. */
  add(hash: Hash, newest: number): void {
    const row = this.length++;
    this.#high.set(row, hash.high);
    this.#low.set(row, hash.low);
    this.#lastHigh = hash.high;
    this.#lastLow = hash.low;
    if (newest < 0) this.#firstRows.add(hash, row);
    else this.#addTwin(row, newest);
  }

  /** Returns whether a row has this id. */
  isOf(row: number, { high, low }: Hash): boolean {
    return this.#high.get(row) === high && this.#low.get(row) === low;
  }

  /** Newest row above `row` that has the id of `newest`, which is the newest with it; -1 when there is none. */
  above(newest: number, row: number): number {
    let at = newest;
    while (at >= row) at = this.#older.get(at);
    return at;
  }

  #search(hash: Hash): number {
    const next = this.#found + 1;
    if (next < this.length && this.isOf(next, hash)) return next;
    if (next > 0 && this.isOf(next - 1, hash)) return next - 1;
    return this.#firstRows.find(hash);
  }

  #addTwin(row: number, newest: number): void {
    this.#hasTwins = true;
    const above = this.#first.get(newest);
    const first = above < 0 ? newest : above;
    this.#first.set(row, first);
    this.#newest.set(first, row);
    this.#older.set(row, newest);
  }
}

/** Rows that are sorted at a time, in memory. */
const BATCH = 1 << 14;

/** Rows that there is room for at first. */
const FEWEST = 64;

/** Most sorted runs: they are read side by side. */
const MOST_RUNS = 64;

/** Most sorted runs that are searched one by one; more are merged first. */
const MOST_SEARCHED = 8;

/** 64 bits of hash, as in `IdHash`. The upper half is spread evenly: its position among sorted ones can be guessed. */
export interface Hash {
  high: number;
  low: number;
}

/** Hashes with their rows, in the order of the upper half of the hash, then of the rows. */
interface Run {
  high: ScratchColumn<Uint32Array>;
  low: ScratchColumn<Uint32Array>;
  row: ScratchColumn<Uint32Array>;
  length: number;
}

/**
 * Rows by hash, too many for a table in memory: they are sorted in batches, and the batches are merged. Rows are added in
 * ascending order.
 */
export class HashRuns {
  readonly #area: ScratchArea;
  readonly #runs: Run[] = [];
  #high = new Uint32Array(FEWEST);
  #low = new Uint32Array(FEWEST);
  #row = new Uint32Array(FEWEST);
  #count = 0;

  constructor(area: ScratchArea) {
    this.#area = area;
  }

  add({ high, low }: Hash, row: number): void {
    if (this.#count === this.#row.length) this.#makeRoom();
    const at = this.#count++;
    this.#high[at] = high;
    this.#low[at] = low;
    this.#row[at] = row;
  }

  /** First row that was added with this hash; -1 when there is none. */
  find(hash: Hash): number {
    if (this.#runs.length > MOST_SEARCHED) this.settle();
    // Kept without a sign, so that they can be sorted as numbers.
    const high = hash.high >>> 0;
    const low = hash.low >>> 0;
    for (const run of this.#runs) {
      for (let at = firstAt(run, high); at < run.length && run.high.get(at) === high; at++)
        if (run.low.get(at) === low) return run.row.get(at);
    }
    for (let at = this.#low.indexOf(low); at >= 0 && at < this.#count; at = this.#low.indexOf(low, at + 1))
      if (this.#high[at] === high) return this.#row[at]!;
    return -1;
  }

  /** Visits all rows in the order of their hashes, those of the same hash in ascending order. */
  forEach(visit: (high: number, low: number, row: number) => void): void {
    this.#flush();
    const at = new Float64Array(this.#runs.length);
    const heads = Float64Array.from(this.#runs, ({ high }) => high.get(0));
    for (;;) {
      let lowest = 0;
      // Of equal ones the first: its rows are older.
      for (let run = 1; run < heads.length; run++) if (heads[run]! < heads[lowest]!) lowest = run;
      const head = heads[lowest];
      if (head === undefined || head === Number.POSITIVE_INFINITY) return;
      const run = this.#runs[lowest]!;
      const position = at[lowest]!++;
      visit(head, run.low.get(position), run.row.get(position));
      heads[lowest] = position + 1 < run.length ? run.high.get(position + 1) : Number.POSITIVE_INFINITY;
    }
  }

  /** Merges all runs into one, so that a search costs the same for any number of rows. */
  settle(): void {
    this.#flush();
    if (this.#runs.length < 2) return;
    const merged = this.#newRun();
    this.forEach((high, low, row) => {
      append(merged, high, low, row);
    });
    for (const { high, low, row } of this.#runs)
      for (const column of [high, low, row]) this.#area.free(column);
    this.#runs.length = 0;
    this.#runs.push(merged);
  }

  #makeRoom(): void {
    if (this.#count === BATCH) {
      this.#flush();
      return;
    }
    [this.#high, this.#low, this.#row] = [this.#high, this.#low, this.#row].map((column) => {
      const wider = new Uint32Array(column.length * 4);
      wider.set(column);
      return wider;
    }) as [Uint32Array<ArrayBuffer>, Uint32Array<ArrayBuffer>, Uint32Array<ArrayBuffer>];
  }

  #flush(): void {
    if (this.#count === 0) return;
    // Hash and position in one number, which a float holds exactly: sorting numbers needs no comparing function.
    const keys = new Float64Array(this.#count);
    for (let at = 0; at < keys.length; at++) keys[at] = this.#high[at]! * BATCH + at;
    keys.sort();
    const run = this.#newRun();
    for (const key of keys) {
      const at = key % BATCH;
      append(run, this.#high[at]!, this.#low[at]!, this.#row[at]!);
    }
    this.#runs.push(run);
    this.#count = 0;
    if (this.#runs.length === MOST_RUNS) this.settle();
  }

  #newRun(): Run {
    const area = this.#area;
    return { high: area.words(), low: area.words(), row: area.words(), length: 0 };
  }
}

function append(run: Run, high: number, low: number, row: number): void {
  const at = run.length++;
  run.high.set(at, high);
  run.low.set(at, low);
  run.row.set(at, row);
}

/** First distance searched around the guess: hashes are spread evenly, so it is seldom far. */
const NEAR = 64;

/** First position whose hash is not below `high`. */
function firstAt(run: Run, high: number): number {
  const isBelow = (at: number) => run.high.get(at) < high;
  let from = Math.floor((high / 2 ** 32) * run.length);
  let to = from;
  for (let step = NEAR; from > 0 && !isBelow(from - 1); step *= 2) from = Math.max(0, from - step);
  for (let step = NEAR; to < run.length && isBelow(to); step *= 2) to = Math.min(run.length, to + step);
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (isBelow(middle)) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** Bloom filter of three bits an id: a fixed number of bits in memory, for any number of ids. */
class IdFilter {
  readonly #words: Uint32Array;
  readonly #mask: number;

  /** @param bits a power of two, at least 32. With 16 for each id, one in 200 of the other ids passes */
  constructor(bits: number) {
    this.#words = new Uint32Array(bits >>> 5);
    this.#mask = bits - 1;
  }

  add(high: number, low: number): void {
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

/** A derived id (`idFromText`) for each row; null where none was set. */
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

/** Places for recent rows, a power of two. The parent of a line is a few lines above it, nearly always. */
const PLACES = 1 << 13;

/** Recent rows by hash. Each hash has one place, and a later row replaces an earlier one. */
class RecentRows {
  readonly #high = new Int32Array(PLACES);
  readonly #low = new Int32Array(PLACES);
  readonly #row = new Int32Array(PLACES).fill(-1);

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
