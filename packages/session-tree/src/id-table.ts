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

  /** Makes room for so many rows, at least as many as there are; to be called before {@link find}, whose slot may move. */
  resize(rows: number): void {
    const [low, high] = [this.#low.subarray(0, rows), this.#high.subarray(0, rows)];
    this.#low = new Uint32Array(rows);
    this.#low.set(low);
    this.#high = new Uint32Array(rows);
    this.#high.set(high);
    const slots = 2 ** Math.ceil(Math.log2(rows * 2));
    if (slots === this.#slots.length) return;
    this.#slots = new Int32Array(slots).fill(-1);
    for (let row = 0; row < this.#rows; row++) this.#place(row);
  }

  /** True when the id that was hashed last is that of a row. */
  isOf(row: number): boolean {
    return this.#low[row] === this.low && this.#high[row] === this.high;
  }

  /** Adds the next row under the id that {@link find} looked for last, in front of any older row with the same id. */
  add(): void {
    const row = this.#rows++;
    this.#low[row] = this.low;
    this.#high[row] = this.high;
    this.#slots[this.#slot] = row;
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
}

const encoder = new TextEncoder();
