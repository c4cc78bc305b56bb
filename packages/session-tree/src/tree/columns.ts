/** 64-bit hash of an id with a random seed, so that a file cannot be made to collide. */
export class IdHash {
  /** Initial value of all hashes. */
  readonly seed = (Math.random() * 0x1_0000_0000) | 0;
  /** Lower 32 bits of the last hash. Signed, because engines store signed integers best. */
  low = 0;
  /** Upper 32 bits of the last hash, signed too. */
  high = 0;

  /** Hashes the id in `bytes[start, end)` into {@link low} and {@link high}. */
  hash(bytes: Uint8Array, start: number, end: number): void {
    let low = this.seed ^ (end - start);
    let high = ~low;
    // Two bytes at a time, because each step depends on the one before it.
    for (let at = start; at < end; at += 2) {
      const pair = at + 1 < end ? bytes[at]! | (bytes[at + 1]! << 8) : bytes[at]!;
      low = Math.imul(low ^ pair, 0x01000193);
      high = Math.imul((high ^ pair) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  /**
   * Hashes the UTF-8 bytes of an id. For nearly every id these equal its code units, so the id is not encoded: encoding
   * would cost more than hashing.
   */
  hashText(id: string): void {
    let low = this.seed ^ id.length;
    let high = ~low;
    for (let at = 0; at < id.length; at += 2) {
      const first = id.charCodeAt(at);
      const second = at + 1 < id.length ? id.charCodeAt(at + 1) : 0;
      if ((first | second) > 127) {
        const bytes = encoder.encode(id);
        this.hash(bytes, 0, bytes.length);
        return;
      }
      const pair = first | (second << 8);
      low = Math.imul(low ^ pair, 0x01000193);
      high = Math.imul((high ^ pair) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  #finish(low: number, high: number): void {
    this.low = Math.imul(low ^ (low >>> 15), 0x2c1b3c6d);
    this.high = Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  }
}

/**
 * Finds the newest row with an id, without storing the ids: an open-addressing hash table of row numbers, with a 64-bit
 * hash for each row. The probability that two different ids have the same hash is n² / 2^65 (one in 37 million for
 * 1,000,000 entries). The hash has a random seed, so that a file cannot be made to collide.
 */
export class IdTable extends IdHash {
  readonly #hashes = new IdHashes(64);
  #slots = new Int32Array(128).fill(-1);
  #rows = 0;
  /** Slot of the last {@link find}: the slot of the id, or the free slot for it. */
  #slot = 0;
  /** Sink that keeps the loop of {@link prefetch} from being eliminated. */
  seen = 0;

  /** Hashes the id in `bytes[start, end)` and stores the hash for {@link recall}. */
  hashInto(hashes: IdHashes, at: number, bytes: Uint8Array, start: number, end: number): void {
    this.hash(bytes, start, end);
    hashes.low[at] = this.low;
    hashes.high[at] = this.high;
  }

  /** Makes a stored hash the last hash. */
  recall({ low, high }: IdHashes, at: number): void {
    this.low = low[at]!;
    this.high = high[at]!;
  }

  /** Returns the newest row with the last hashed id; -1 when there is none. */
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

  /**
   * Same as {@link find}, for an id that is probably the last row's. In that case the table is not read, which is too
   * large for a cache.
   */
  findLast(): number {
    const last = this.#rows - 1;
    return last >= 0 && this.isOf(last) ? last : this.find();
  }

  /**
   * Loads the slots of ids that are looked up next. A table of a million ids does not fit in a cache, and single
   * lookups wait for memory one after the other. These loads overlap, and the slots are in the cache afterwards.
   */
  prefetch({ low }: IdHashes, count: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let seen = 0;
    for (let at = 0; at < count; at++) seen ^= slots[low[at]! & mask]!;
    this.seen = seen;
  }

  /**
   * Makes room for a number of rows, at least the current number. Call it before {@link find}, because it moves the
   * slots.
   */
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

  /** Returns whether a row has the last hashed id. */
  isOf(row: number): boolean {
    return this.#hashes.low[row] === this.low && this.#hashes.high[row] === this.high;
  }

  /** Adds the next row with the id of the last {@link find}. It replaces an older row with the same id. */
  add(): void {
    const row = this.#rows++;
    this.#hashes.low[row] = this.low;
    this.#hashes.high[row] = this.high;
    this.#slots[this.#slot] = row | tagOf(this.high, (this.#slots.length - 1) >>> 1);
  }

  /** Bytes of the table, for measurements. */
  get byteLength(): number {
    return this.#hashes.byteLength + this.#slots.byteLength;
  }
}

/** Returns bits of the hash for a slot, above the row number. They avoid most comparisons with rows of other ids. */
const tagOf = (high: number, rowMask: number): number => high & 0x7fffffff & ~rowMask;

const encoder = new TextEncoder();

/** 64-bit hashes of many ids, as two columns. */
export class IdHashes {
  low: Int32Array;
  high: Int32Array;

  constructor(room: number) {
    this.low = new Int32Array(room);
    this.high = new Int32Array(room);
  }

  /** Bytes of the columns. */
  get byteLength(): number {
    return this.low.byteLength + this.high.byteLength;
  }

  /** Changes the room to a number of ids, and keeps the hashes that fit. */
  resize(room: number): void {
    this.low = resized(this.low, new Int32Array(room));
    this.high = resized(this.high, new Int32Array(room));
  }
}

/** Smallest offset that needs more than 32 bits. */
const TURN = 2 ** 32;

/**
 * Offsets of the lines of a log, by row and in file order. Offsets only grow, so the column stores the low half of each
 * and the rows at which the high half grows: four bytes per row instead of eight.
 */
export class OffsetColumn {
  #low: Uint32Array;
  /** First row after each 4 GiB of the log. Nearly always empty. */
  readonly #turns: number[] = [];

  constructor(room: number) {
    this.#low = new Uint32Array(room);
  }

  /** Number of rows that there is room for. */
  get room(): number {
    return this.#low.length;
  }

  get byteLength(): number {
    return this.#low.byteLength;
  }

  /** Returns the offset of a row. */
  at(row: number): number {
    const turns = this.#turns;
    let passed = turns.length;
    while (passed > 0 && row < turns[passed - 1]!) passed--;
    return passed * TURN + this.#low[row]!;
  }

  /** Sets the offset of the next row. It has to be larger than all offsets before it. */
  set(row: number, offset: number): void {
    while (offset >= (this.#turns.length + 1) * TURN) this.#turns.push(row);
    this.#low[row] = offset;
  }

  resize(room: number): void {
    this.#low = resized(this.#low, new Uint32Array(room));
  }
}

/** An array of numbers. */
interface Column<Of> {
  set(source: Of): void;
  subarray(start: number, end: number): Of;
  readonly length: number;
}

/** Copies the part of a column that fits into `room`; returns `room`. */
export function resized<Of extends Column<Of>>(column: Of, room: Of): Of {
  room.set(column.subarray(0, room.length));
  return room;
}
