import { IdHashes, IdTable, OffsetColumn, resized } from "./columns.ts";

/** Largest growth of full columns, when the size of the log tells how many rows can follow. */
const MOST_GROWTH = 32;

/** Smallest growth of full columns. With it, a row takes less than 44 bytes, including the table of ids. */
const LEAST_GROWTH = 1.25;

/** Rows that the columns have room for at first; the same as in the table of ids. */
const FEWEST = 64;

/** Extra room, for the case that the remaining rows are shorter than those so far. */
const MARGIN = 1.02;

/** Rows of a log as columns of numbers in memory: 30 to 43 bytes per entry, whatever its length. */
export class EntryIndex implements RowIndex {
  readonly #offset = new OffsetColumn(FEWEST);
  #length = new Uint32Array(FEWEST);
  #parent = new Int32Array(FEWEST);
  #kind = new Uint8Array(FEWEST);
  /** Number of rows of each kind. */
  readonly #ofKind = new Uint32Array(256);
  #rows = 0;
  #logSize = 0;
  readonly #ids = new IdTable();
  /** For each row whose id other rows have too: all rows with the id, in order. A map, because this is rare. */
  readonly #namesakes = new Map<number, number[]>();

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
    this.#ids.hashText(id);
    return this.#ids.find();
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

  hasId(row: number, id: string): boolean {
    this.#ids.hashText(id);
    return this.#ids.isOf(row);
  }

  rowOfBytes(bytes: Uint8Array, start: number, end: number): number {
    this.#ids.hash(bytes, start, end);
    return this.#ids.find();
  }

  get hashSeed(): number {
    return this.#ids.seed;
  }

  hashInto(hashes: IdHashes, at: number, bytes: Uint8Array, start: number, end: number): void {
    this.#ids.hashInto(hashes, at, bytes, start, end);
  }

  rowOfHash(hashes: IdHashes, at: number): number {
    this.#ids.recall(hashes, at);
    return this.#ids.find();
  }

  parentOfHash(hashes: IdHashes, at: number): number {
    this.#ids.recall(hashes, at);
    return this.#ids.findLast();
  }

  add(older: number, parent: number, kind: number, offset: number, length: number): number {
    const row = this.#rows++;
    this.#offset.set(row, offset);
    this.#length[row] = length;
    this.#parent[row] = parent;
    this.#kind[row] = kind;
    this.#ofKind[kind]!++;
    this.#ids.add();
    if (older >= 0) this.#addNamesake(older, row);
    // Grows after the row is added: the table of ids must not move between a lookup and {@link add}.
    if (this.#rows === this.#offset.room) this.#grow(offset + length);
    return row;
  }

  prefetch(ids: IdHashes, count: number): void {
    this.#ids.prefetch(ids, count);
  }

  /** Bytes of the columns, for measurements. */
  get byteLength(): number {
    return (
      this.#offset.byteLength +
      this.#length.byteLength +
      this.#parent.byteLength +
      this.#kind.byteLength +
      this.#ids.byteLength
    );
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
    this.#ids.resize(rows);
  }
}

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
  /** Row of the parent, {@link ROOT} or {@link ORPHAN}. */
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
  /** Returns whether a row has this id. */
  hasId(row: number, id: string): boolean;
  /** Same as {@link rowOf}, for an id in bytes. */
  rowOfBytes(bytes: Uint8Array, start: number, end: number): number;
  /** Initial value of the hashes of ids; see `IdHash`. */
  readonly hashSeed: number;
  /** Hashes an id in bytes, for {@link rowOfHash} and {@link parentOfHash}. */
  hashInto(hashes: IdHashes, at: number, bytes: Uint8Array, start: number, end: number): void;
  /** Same as {@link rowOf}, for a hashed id. */
  rowOfHash(hashes: IdHashes, at: number): number;
  /** Same as {@link rowOfHash}, but fastest when the id is that of the last row, as a parent's id nearly always is. */
  parentOfHash(hashes: IdHashes, at: number): number;
  /**
   * Adds a row with the id of the last call of {@link rowOfBytes} or {@link rowOfHash}, so that no id is hashed twice.
   * `older` is the result of that call. Returns the new row.
   */
  add(older: number, parent: number, kind: number, offset: number, length: number): number;
  /** Loads the hash table's slots of ids that are looked up next into the processor's cache. */
  prefetch?(ids: IdHashes, count: number): void;
  /** Prepares for a log of this size in bytes. Call it before the log is read. */
  expect(logSize: number): void;
  /** Completes the index. Call it after the log was read. */
  settle(): void;
}

/** Parent of a root. */
export const ROOT = -1;

/** Parent of an entry whose parent is not above it. The entry counts as a root and is reported. */
export const ORPHAN = -2;

/** Maximum number of rows in the buffer: enough for overlapping lookups in the table of ids, and few enough for the cache. */
const MOST_BUFFERED = 256;

/** Rows that were scanned and are not in the index yet. Their ids are looked up many at once. */
export class RowBuffer {
  count = 0;
  /** Number of the first row's line. The other rows are on the following lines. */
  firstLine = 1;
  readonly ids = new IdHashes(MOST_BUFFERED);
  readonly parents = new IdHashes(MOST_BUFFERED);
  readonly isRoot = new Uint8Array(MOST_BUFFERED);
  readonly kind = new Uint8Array(MOST_BUFFERED);
  readonly offset = new Float64Array(MOST_BUFFERED);
  readonly length = new Uint32Array(MOST_BUFFERED);

  /** Returns whether the buffer is full. */
  get isFull(): boolean {
    return this.count === MOST_BUFFERED;
  }
}
