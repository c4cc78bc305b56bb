import { ID_LENGTH } from "@espalier/session-tree";
import type { ScratchArea, ScratchColumn } from "./space.ts";

/** 64 bits of hash, as in `IdHash`. Its bits are spread evenly. */
export interface Hash {
  high: number;
  low: number;
}

/** Slots of an empty table: they fit one page. */
const FEWEST_BITS = 10;

/** The share of the slots that is taken before there are twice as many. */
const MOST_TAKEN = 0.75;

/**
 * A row for each hash, for any number of hashes: an open table whose slots are in the order of the upper half of the hash.
 * So a table grows by one pass over it in order, and the page of an id is in memory while rows near it name it.
 */
export class HashRows {
  readonly #area: ScratchArea;
  /** Three numbers a slot: the row from 1 on, 0 where the slot is free, and the two halves of the hash. */
  #slots: ScratchColumn<Int32Array>;
  #bits = FEWEST_BITS;
  #count = 0;

  constructor(area: ScratchArea) {
    this.#area = area;
    this.#slots = area.integers();
  }

  /** Row of a hash; -1 when there is none. */
  find(hash: Hash): number {
    return this.#slots.get(this.#slotOf(hash)) - 1;
  }

  /** Sets the row of a hash. */
  set(hash: Hash, row: number): void {
    const at = this.#slotOf(hash);
    const isNew = this.#slots.get(at) === 0;
    this.#slots.set(at, row + 1);
    if (!isNew) return;
    this.#slots.set(at + 1, hash.high);
    this.#slots.set(at + 2, hash.low);
    if (++this.#count > MOST_TAKEN * 2 ** this.#bits) this.#grow();
  }

  /** Visits all rows. */
  forEach(visit: (hash: Hash, row: number) => void): void {
    const slots = this.#slots;
    for (let at = 0; at < 3 * 2 ** this.#bits; at += 3) {
      const row = slots.get(at) - 1;
      if (row >= 0) visit({ high: slots.get(at + 1), low: slots.get(at + 2) }, row);
    }
  }

  #grow(): void {
    const wider = new HashRows(this.#area);
    wider.#bits = this.#bits + 1;
    this.forEach((hash, row) => {
      wider.set(hash, row);
    });
    this.#area.free(this.#slots);
    this.#slots = wider.#slots;
    this.#bits = wider.#bits;
  }

  /** Place of a hash, or the free place where it belongs. */
  #slotOf({ high, low }: Hash): number {
    const slots = this.#slots;
    const end = 3 * 2 ** this.#bits;
    let at = 3 * (high >>> (32 - this.#bits));
    while (slots.get(at) !== 0 && (slots.get(at + 1) !== high || slots.get(at + 2) !== low))
      at = at + 3 === end ? 0 : at + 3;
    return at;
  }
}

/**
 * Newest row of each id, for any number of ids, found while rows are added. The last id, and ids in the order of their
 * rows, need no search.
 */
export class IdRows {
  /** Number of rows. */
  length = 0;
  readonly #high: ScratchColumn<Int32Array>;
  readonly #low: ScratchColumn<Int32Array>;
  readonly #newest: HashRows;
  /** Row that was found last. */
  #found = -1;
  /** True when rows share an id. The column below is empty otherwise. */
  #hasTwins = false;
  /** Row with the same id above. */
  readonly #older: ScratchColumn<Int32Array>;

  constructor(area: ScratchArea) {
    this.#high = area.integers();
    this.#low = area.integers();
    this.#newest = new HashRows(area);
    this.#older = area.integers(-1);
  }

  /** Newest row with this id; -1 when there is none. */
  find(hash: Hash): number {
    if (this.length > 0 && this.isOf(this.length - 1, hash)) return this.length - 1;
    const row = this.#guess(hash);
    if (row >= 0) this.#found = row;
    return row;
  }

  /** Adds the next row under an id; `newest` is the result of {@link find}. */
  add(hash: Hash, newest: number): void {
    const row = this.length++;
    this.#high.set(row, hash.high);
    this.#low.set(row, hash.low);
    this.#newest.set(hash, row);
    if (newest < 0) return;
    this.#hasTwins = true;
    this.#older.set(row, newest);
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

  /** Rows are mostly asked for in their order. */
  #guess(hash: Hash): number {
    const next = this.#found + 1;
    if (!this.#hasTwins && next < this.length && this.isOf(next, hash)) return next;
    return this.#newest.find(hash);
  }
}

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
