import type { ScratchArea, ScratchColumn } from "./space.ts";

/** How many are sorted at a time, in memory. */
const BATCH = 1 << 14;

/** There is room for so many at first. */
const FEWEST = 64;

/** How many sorted runs there are at most: they are read side by side. */
const MOST_RUNS = 64;

/** So many sorted runs are searched one by one; where there are more, they are merged first. */
const MOST_SEARCHED = 8;

/** 64 bits of hash, as `IdHash` has them. The upper half is spread evenly: where one stands among sorted ones can be guessed. */
export interface Hash {
  high: number;
  low: number;
}

/** A hash and the row that was kept with it, in the order of the upper half of the hash, then of the rows. */
interface Run {
  high: ScratchColumn<Uint32Array>;
  low: ScratchColumn<Uint32Array>;
  row: ScratchColumn<Uint32Array>;
  length: number;
}

/**
 * From hashes to rows, for so many that a table of them is too much for memory: they are sorted in batches, and the
 * batches are merged. Rows are added in ascending order.
 */
export class HashRuns {
  readonly #area: ScratchArea;
  readonly #runs: Run[] = [];
  #high = new Uint32Array(FEWEST);
  #low = new Uint32Array(FEWEST);
  #row = new Uint32Array(FEWEST);
  #waiting = 0;

  constructor(area: ScratchArea) {
    this.#area = area;
  }

  add({ high, low }: Hash, row: number): void {
    if (this.#waiting === this.#row.length) this.#makeRoom();
    const at = this.#waiting++;
    this.#high[at] = high;
    this.#low[at] = low;
    this.#row[at] = row;
  }

  /** The first row that was added with this hash; -1 when there is none. */
  find(hash: Hash): number {
    if (this.#runs.length > MOST_SEARCHED) this.settle();
    // Kept without a sign, so that they can be sorted as numbers.
    const high = hash.high >>> 0;
    const low = hash.low >>> 0;
    for (const run of this.#runs) {
      for (let at = firstAt(run, high); at < run.length && run.high.get(at) === high; at++)
        if (run.low.get(at) === low) return run.row.get(at);
    }
    for (let at = this.#low.indexOf(low); at >= 0 && at < this.#waiting; at = this.#low.indexOf(low, at + 1))
      if (this.#high[at] === high) return this.#row[at]!;
    return -1;
  }

  /** All of them, those with the same hash one after the other, their rows ascending. */
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

  /** Each hash once: its first row, and how many rows have it. */
  forEachHash(visit: (hash: Hash, row: number, count: number) => void): void {
    /** Those with this upper half: nearly always one. */
    let same: { hash: Hash; row: number; count: number }[] = [];
    let upper = -1;
    const tell = () => {
      for (const { hash, row, count } of same) visit(hash, row, count);
    };
    this.forEach((high, low, row) => {
      if (high !== upper) {
        tell();
        same = [];
        upper = high;
      }
      const known = same.find(({ hash }) => hash.low === low);
      if (known) known.count++;
      else same.push({ hash: { high, low }, row, count: 1 });
    });
    tell();
  }

  /** Tells of each row whose hash an older one has, and of the first of those. */
  forEachTwin(visit: (row: number, first: number) => void): void {
    let same: { low: number; row: number }[] = [];
    let upper = -1;
    this.forEach((high, low, row) => {
      if (high !== upper) same = [];
      upper = high;
      const first = same.find((other) => other.low === low);
      if (first) visit(row, first.row);
      else same.push({ low, row });
    });
  }

  /** Makes one run of all, so that finding costs the same however many there are. */
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
    if (this.#waiting === BATCH) {
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
    if (this.#waiting === 0) return;
    // Hash and position in one number, which a float holds exactly: sorting numbers needs no comparing function.
    const keys = new Float64Array(this.#waiting);
    for (let at = 0; at < keys.length; at++) keys[at] = this.#high[at]! * BATCH + at;
    keys.sort();
    const run = this.#newRun();
    for (const key of keys) {
      const at = key % BATCH;
      append(run, this.#high[at]!, this.#low[at]!, this.#row[at]!);
    }
    this.#runs.push(run);
    this.#waiting = 0;
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

/** How far around the guess is looked first: hashes are spread evenly, so it is seldom far. */
const NEAR = 64;

/** The first position whose hash is not below `high`. */
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
