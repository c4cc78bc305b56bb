/** Maximum growth of full columns, used when the size of the log limits the number of further rows. */
const MOST_GROWTH = 32;

/** Smallest growth of full columns. With it, a row takes less than 44 bytes, including the table of ids. */
const LEAST_GROWTH = 1.25;

/** Rows that the columns have room for at first. */
const FEWEST = 64;

/** Extra room, for the case that the remaining rows are shorter than those so far. */
const MARGIN = 1.02;

/**
 * Rows of a log as columns of numbers in memory: 30 to 43 bytes per entry, whatever its length.
 *
 * Ids are not stored. The newest row with an id is found in an open-addressing hash table of row numbers, with a 64-bit
 * hash for each row. The probability that two different ids have the same hash is n² / 2^65 (one in 37 million for
 * 1,000,000 entries).
 */
export class EntryIndex implements RowIndex {
  readonly hash = new IdHash();
  readonly #offset = new OffsetColumn(FEWEST);
  #length = new Uint32Array(FEWEST);
  #parent = new Int32Array(FEWEST);
  #kind = new Uint8Array(FEWEST);
  readonly #hashes = new IdHashes(FEWEST);
  #slots = new Int32Array(2 * FEWEST).fill(-1);
  /** Slot of the last {@link rowOfHash}: the slot of the id, or the free slot for it. */
  #slot = 0;
  /** Number of rows of each kind. */
  readonly #ofKind = new Uint32Array(256);
  #rows = 0;
  #logSize = 0;
  /** For each row whose id other rows have too: all rows with the id, in order. A map, because this is rare. */
  readonly #namesakes = new Map<number, number[]>();
  /** Result of {@link prefetch}, stored so that its loop is not optimized away. */
  seen = 0;

  expect(logSize: number): void {
    this.#logSize = logSize;
  }

  settle(): void {
    if (this.#offset.room > Math.max(this.#rows, FEWEST) * 1.5)
      this.#resize(Math.ceil(Math.max(this.#rows, FEWEST) * LEAST_GROWTH));
  }

  get length(): number {
    return this.#rows;
  }

  offset(row: number): number {
    return this.#offset.at(row);
  }

  lineLength(row: number): number {
    return this.#length[row]!;
  }

  parent(row: number): number {
    return this.#parent[row]!;
  }

  kind(row: number): number {
    return this.#kind[row]!;
  }

  pathRows(row: number, wanted: readonly boolean[]): Int32Array {
    // One array, filled from its end. A growing array that is reversed takes six times as long as the walk.
    let most = 0;
    for (const [kind, isWanted] of wanted.entries()) if (isWanted) most += this.#ofKind[kind]!;
    const rows = new Int32Array(Math.min(most, row + 1));
    let first = rows.length;
    for (let at = row; at >= 0 && first > 0; at = this.#parent[at]!)
      if (wanted[this.#kind[at]!]) rows[--first] = at;
    return rows.subarray(first);
  }

  rowOf(id: string): number {
    // Callers in plain JavaScript pass the id of an entry that they did not find.
    if (typeof id !== "string") return -1;
    this.hash.hashText(id);
    return this.rowOfHash();
  }

  rowAbove(id: string, row: number): number {
    const newest = this.rowOf(id);
    if (newest < row) return newest;
    const rows = this.#namesakes.get(newest) ?? [];
    // Binary search, because a damaged log can have one id a hundred thousand times.
    let low = 0;
    for (let high = rows.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if (rows[middle]! < row) low = middle + 1;
      else high = middle;
    }
    return rows[low - 1] ?? -1;
  }

  hasHash(row: number): boolean {
    return this.#hashes.low[row] === this.hash.low && this.#hashes.high[row] === this.hash.high;
  }

  rowOfHash(): number {
    const { low, high } = this.hash;
    const { low: lows, high: highs } = this.#hashes;
    const slots = this.#slots;
    const mask = slots.length - 1;
    const rowMask = mask >>> 1;
    const tag = tagOf(high, rowMask);
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const taken = slots[slot]!;
      this.#slot = slot;
      if (taken < 0) return -1;
      const row = taken & rowMask;
      if ((taken ^ row) === tag && lows[row] === low && highs[row] === high) return row;
    }
  }

  /** In the usual case the table is not read, which is too large for a cache. */
  parentOfHash(): number {
    const last = this.#rows - 1;
    return last >= 0 && this.hasHash(last) ? last : this.rowOfHash();
  }

  add(older: number, parent: number, kind: number, offset: number, length: number): number {
    const row = this.#rows++;
    this.#offset.set(row, offset);
    this.#length[row] = length;
    this.#parent[row] = parent;
    this.#kind[row] = kind;
    this.#ofKind[kind]!++;
    this.#hashes.low[row] = this.hash.low;
    this.#hashes.high[row] = this.hash.high;
    this.#takeSlot(row);
    if (older >= 0) this.#addNamesake(older, row);
    // Grows after the row is added: the table of ids must not move between a lookup and {@link add}.
    if (this.#rows === this.#offset.room) this.#grow(offset + length);
    return row;
  }

  /** Puts a row into the slot of the last lookup. It replaces an older row with the same id. */
  #takeSlot(row: number): void {
    this.#slots[this.#slot] = row | tagOf(this.hash.high, (this.#slots.length - 1) >>> 1);
  }

  /**
   * A table of a million ids does not fit in a cache, and each lookup would wait for memory. The loads in this loop
   * overlap, so later lookups find their slots in the cache.
   */
  prefetch({ low }: IdHashes, count: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let seen = 0;
    for (let at = 0; at < count; at++) seen ^= slots[low[at]! & mask]!;
    this.seen = seen;
  }

  #addNamesake(older: number, row: number): void {
    const rows = this.#namesakes.get(older) ?? [older];
    rows.push(row);
    this.#namesakes.set(older, rows).set(row, rows);
  }

  /**
   * Grows the columns to the size that the log probably needs. Growing step by step leaves garbage of four times the
   * columns; this leaves a tenth of them.
   */
  #grow(bytesRead: number): void {
    const expected = (this.#rows * this.#logSize * MARGIN) / bytesRead;
    const rows = Math.min(Math.max(expected, this.#rows * LEAST_GROWTH), this.#rows * MOST_GROWTH);
    this.#resize(Math.ceil(rows));
  }

  #resize(rows: number): void {
    this.#offset.resize(rows);
    this.#length = resized(this.#length, new Uint32Array(rows));
    this.#parent = resized(this.#parent, new Int32Array(rows));
    this.#kind = resized(this.#kind, new Uint8Array(rows));
    this.#hashes.resize(rows);
    const slots = 2 ** Math.ceil(Math.log2(rows * 2));
    if (slots === this.#slots.length) return;
    this.#slots = new Int32Array(slots).fill(-1);
    for (let row = 0; row < this.#rows; row++) {
      this.hash.recall(this.#hashes, row);
      this.rowOfHash();
      this.#takeSlot(row);
    }
  }
}

/** Returns bits of the hash for a slot, above the row number. They avoid most comparisons with rows of other ids. */
const tagOf = (high: number, rowMask: number): number => high & 0x7fffffff & ~rowMask;

/**
 * Position and parent of every entry of a log. Rows are in file order and are only added. A parent's row is always
 * smaller than its child's, so a walk up cannot loop. `EntryIndex` keeps the rows in memory. For logs that are too long
 * for memory, pass an index that stores them elsewhere.
 */
export interface RowIndex {
  /** Number of entries. */
  readonly length: number;
  /** Offset of a row's entry in the log: of its line, or of its part of a line with several entries. */
  offset(row: number): number;
  /** Bytes of the row's line without its newline, or of the row's part of the line. */
  lineLength(row: number): number;
  /** Row of the parent; `ROOT` (-1) or `ORPHAN` (-2) when there is none above the row. */
  parent(row: number): number;
  /** Code of the row's kind (see `kindCode`). */
  kind(row: number): number;
  /**
   * Rows of the path that ends in `row`, root first, whose kind's code is true in `wanted`. Does not walk when the log
   * has no such rows.
   */
  pathRows(row: number, wanted: readonly boolean[]): Int32Array;
  /** Newest row with this id; -1 when there is none. */
  rowOf(id: string): number;
  /** Newest row above `row` with this id; -1 when there is none. */
  rowAbove(id: string, row: number): number;
  /** Hash of the id that {@link hasHash}, {@link rowOfHash}, {@link parentOfHash} and {@link add} use. */
  readonly hash: IdHash;
  /** Returns whether a row has the id of {@link hash}. */
  hasHash(row: number): boolean;
  /** Same as {@link rowOf}, for the id of {@link hash}. */
  rowOfHash(): number;
  /**
   * Same as {@link rowOfHash}, but fastest when the id is that of the last row, as a parent's id nearly always is. Call
   * {@link rowOfHash} again before {@link add}.
   */
  parentOfHash(): number;
  /**
   * Adds a row with the id of the last call of {@link rowOf} or {@link rowOfHash}, so that no id is hashed twice; no
   * other lookup may come between. `older` is the result of that call: the newest row with the id, or -1. Returns the
   * new row.
   */
  add(older: number, parent: number, kind: number, offset: number, length: number): number;
  /** Loads hash-table slots into the processor's cache for ids that are looked up next. */
  prefetch?(ids: IdHashes, count: number): void;
  /** Prepares for a log of this size in bytes. Call it before the log is read. */
  expect(logSize: number): void;
  /** Completes the index. Call it after the log was read. */
  settle(): void;
}

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

  /** Hashes the id in `bytes[start, end)`, and stores the hash for {@link recall}. */
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

  #finish(low: number, high: number): void {
    this.low = Math.imul(low ^ (low >>> 15), 0x2c1b3c6d);
    this.high = Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  }
}

const encoder = new TextEncoder();

/** 64-bit hashes of many ids, as two columns. */
export class IdHashes {
  low: Int32Array;
  high: Int32Array;

  constructor(room: number) {
    this.low = new Int32Array(room);
    this.high = new Int32Array(room);
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
class OffsetColumn {
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

interface Column<Of> {
  set(source: Of): void;
  subarray(start: number, end: number): Of;
  readonly length: number;
}

/** Copies the part of a column that fits into `room`; returns `room`. */
function resized<Of extends Column<Of>>(column: Of, room: Of): Of {
  room.set(column.subarray(0, room.length));
  return room;
}
