import { IdHash } from "./id-hash.ts";
import { IdHashes } from "./id-hashes.ts";

/**
 * From an id to the newest row that has it, without keeping the ids: an open-addressing hash table of row numbers with
 * 64 bits of hash a row. Two different ids are taken for one with a probability of n² / 2^65 (one in 37 million for
 * 1,000,000 entries); the hash is seeded at random, so that a file cannot be made to collide.
 */
export class IdTable extends IdHash {
  readonly #hashes = new IdHashes(64);
  #slots = new Int32Array(128).fill(-1);
  #rows = 0;
  /** Where the last {@link find} ended: the slot of the id that was sought, or the free one for it. */
  #slot = 0;
  /** Says nothing. Without it, nobody would need what {@link bringNear} looks at, and it would be optimised away. */
  seen = 0;

  /** Hashes the id in `bytes[start, end)` and keeps that, for {@link recall}. */
  hashInto(hashes: IdHashes, at: number, bytes: Uint8Array, start: number, end: number): void {
    this.hash(bytes, start, end);
    hashes.low[at] = this.low;
    hashes.high[at] = this.high;
  }

  /** Takes a hash that was kept for the one made last. */
  recall({ low, high }: IdHashes, at: number): void {
    this.low = low[at]!;
    this.high = high[at]!;
  }

  /** The newest row with the id that was hashed last; -1 when there is none. */
  find(): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    const rowMask = mask >>> 1;
    const tag = tagOf(this.high, rowMask);
    for (let slot = this.low & mask; ; slot = (slot + 1) & mask) {
      const taken = slots[slot]!;
      this.#slot = slot;
      if (taken < 0) return -1;
      const row = taken & rowMask;
      if ((taken ^ row) === tag && this.isOf(row)) return row;
    }
  }

  /** As {@link find}, for an id that is likely that of the last row: no look at a table that no cache holds, then. */
  findNear(): number {
    const last = this.#rows - 1;
    return last >= 0 && this.isOf(last) ? last : this.find();
  }

  /**
   * To be told of ids that will be looked for. A table of a million ids is in no cache, and looks into it that come one
   * by one wait for memory one by one; those here do not wait for each other, and what they saw is near afterwards.
   */
  bringNear({ low }: IdHashes, count: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let seen = 0;
    for (let at = 0; at < count; at++) seen ^= slots[low[at]! & mask]!;
    this.seen = seen;
  }

  /** Makes room for so many rows, at least as many as there are; to be called before {@link find}, whose slot may move. */
  resize(rows: number): void {
    this.#hashes.resize(rows);
    const slots = 2 ** Math.ceil(Math.log2(rows * 2));
    if (slots === this.#slots.length) return;
    this.#slots = new Int32Array(slots).fill(-1);
    const kept = this.#rows;
    for (this.#rows = 0; this.#rows < kept; ) {
      this.recall(this.#hashes, this.#rows);
      this.find();
      this.add();
    }
  }

  /** True when the id that was hashed last is that of a row. */
  isOf(row: number): boolean {
    return this.#hashes.low[row] === this.low && this.#hashes.high[row] === this.high;
  }

  /** Adds the next row under the id that {@link find} looked for last, in front of any older row with the same id. */
  add(): void {
    const row = this.#rows++;
    this.#hashes.low[row] = this.low;
    this.#hashes.high[row] = this.high;
    this.#slots[this.#slot] = row | tagOf(this.high, (this.#slots.length - 1) >>> 1);
  }

  /** Bytes held, for whoever measures. */
  get byteLength(): number {
    return this.#hashes.byteLength + this.#slots.byteLength;
  }
}

/** What stands in a slot above the number of its row: bits of the hash, so that few rows of other ids are looked at. */
const tagOf = (high: number, rowMask: number): number => high & 0x7fffffff & ~rowMask;
