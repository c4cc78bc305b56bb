/** How much longer a full column becomes: with half a table of slots, a row then never holds 48 bytes. */
export const ROWS_GROWTH = 1.25;

/**
 * From an id to the newest row that has it, without keeping the ids: an open-addressing hash table of row numbers with
 * 64 bits of hash a row. Two different ids are taken for one with a probability of n² / 2^65 (one in 37 million for
 * 1,000,000 entries); the hash is seeded at random, so that a file cannot be made to collide.
 */
export class IdTable {
  #low = new Uint32Array(64);
  #high = new Uint32Array(64);
  #slots = new Int32Array(128).fill(-1);
  #rows = 0;
  /** Where the last {@link find} ended: the slot of the id that was sought, or the free one for it. */
  #slot = 0;
  readonly #seed = (Math.random() * 0x1_0000_0000) >>> 0;
  /** The hash of the last id handed to {@link hash} or {@link hashText}. */
  low = 0;
  high = 0;

  /** Hashes the id in `bytes[start, end)` into {@link low} and {@link high}. */
  hash(bytes: Uint8Array, start: number, end: number): void {
    let low = this.#seed;
    let high = ~this.#seed;
    for (let at = start; at < end; at++) {
      const byte = bytes[at]!;
      low = Math.imul(low ^ byte, 0x01000193);
      high = Math.imul((high ^ byte) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  /** Hashes the UTF-8 bytes of an id. Of nearly every one these are its code units: encoding would cost more than all the rest. */
  hashText(id: string): void {
    let low = this.#seed;
    let high = ~this.#seed;
    for (let at = 0; at < id.length; at++) {
      const unit = id.charCodeAt(at);
      if (unit > 127) {
        const bytes = encoder.encode(id);
        this.hash(bytes, 0, bytes.length);
        return;
      }
      low = Math.imul(low ^ unit, 0x01000193);
      high = Math.imul((high ^ unit) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  #finish(low: number, high: number): void {
    this.low = Math.imul(low ^ (low >>> 15), 0x2c1b3c6d) >>> 0;
    this.high = Math.imul(high ^ (high >>> 13), 0xc2b2ae35) >>> 0;
  }

  /** The newest row with the id that was hashed last; -1 when there is none. */
  find(): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    for (let slot = this.low & mask; ; slot = (slot + 1) & mask) {
      const row = slots[slot]!;
      if (row >= 0 && !this.isOf(row)) continue;
      this.#slot = slot;
      return row;
    }
  }

  /** As {@link find}, for an id that is likely that of the last row: no look at a table that no cache holds, then. */
  findNear(): number {
    const last = this.#rows - 1;
    return last >= 0 && this.isOf(last) ? last : this.find();
  }

  /** True when the id that was hashed last is that of a row. */
  isOf(row: number): boolean {
    return this.#low[row] === this.low && this.#high[row] === this.high;
  }

  /** Adds the next row under the id that {@link find} looked for last, in front of any older row with the same id. */
  add(): void {
    const row = this.#rows++;
    if (row === this.#low.length) this.#growRows();
    this.#low[row] = this.low;
    this.#high[row] = this.high;
    if (this.#rows * 2 > this.#slots.length) this.#growSlots();
    else this.#slots[this.#slot] = row;
  }

  #same(a: number, b: number): boolean {
    return this.#low[a] === this.#low[b] && this.#high[a] === this.#high[b];
  }

  /** Bytes held, for whoever measures. */
  get byteLength(): number {
    return this.#low.byteLength + this.#high.byteLength + this.#slots.byteLength;
  }

  #place(row: number): void {
    const mask = this.#slots.length - 1;
    for (let slot = this.#low[row]! & mask; ; slot = (slot + 1) & mask) {
      const other = this.#slots[slot]!;
      if (other < 0 || this.#same(other, row)) {
        this.#slots[slot] = row;
        return;
      }
    }
  }

  #growRows(): void {
    const size = Math.ceil(this.#low.length * ROWS_GROWTH);
    const low = new Uint32Array(size);
    low.set(this.#low);
    const high = new Uint32Array(size);
    high.set(this.#high);
    this.#low = low;
    this.#high = high;
  }

  #growSlots(): void {
    this.#slots = new Int32Array(this.#slots.length * 2).fill(-1);
    for (let row = 0; row < this.#rows; row++) this.#place(row);
  }
}

const encoder = new TextEncoder();
