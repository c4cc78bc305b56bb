import { IdHashes, IdTable, OffsetColumn, resized } from "./columns.ts";

/** Largest growth of full columns while a log is read whose size tells how many rows may follow. */
const MOST_GROWTH = 32;

/** Smallest growth: with the table of ids, a row then takes less than 44 bytes. */
const LEAST_GROWTH = 1.25;

/** Rows that there is room for from the beginning, as in the table of ids. */
const FEWEST = 64;

/** Room left for rows that are shorter than those before. */
const MARGIN = 1.02;

/** The rows of a log as columns of numbers in memory: 30 to 43 bytes for an entry of any length. */
export class EntryIndex implements RowIndex {
  readonly #offset = new OffsetColumn(FEWEST);
  #length = new Uint32Array(FEWEST);
  #parent = new Int32Array(FEWEST);
  #kind = new Uint8Array(FEWEST);
  /** Rows of each kind. */
  readonly #ofKind = new Uint32Array(256);
  #rows = 0;
  #logSize = 0;
  readonly #ids = new IdTable();
  /** For rows whose id other rows have too: all of them, in order. Rare, so a map and not a column. */
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
    // One piece, filled from its end: a growing array and its reversal take six times as long as the walk itself.
    let most = 0;
    for (const [kind, isWanted] of wanted.entries()) if (isWanted) most += this.#ofKind[kind]!;
    const rows = new Int32Array(Math.min(most, row + 1));
    let first = rows.length;
    for (let at = row; at >= 0 && first > 0; at = this.#parent[at]!)
      if (wanted[this.#kind[at]!]) rows[--first] = at;
    return rows.subarray(first);
  }

  rowOf(id: string): number {
    this.#ids.hashText(id);
    return this.#ids.find();
  }

  rowAbove(id: string, row: number): number {
    const newest = this.rowOf(id);
    if (newest < row) return newest;
    const rows = this.#namesakes.get(newest) ?? [];
    // Half by half: a damaged log may have one id a hundred thousand times.
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
    // Behind the row, and not before it: the table of ids must not move between a search and what it was for.
    if (this.#rows === this.#offset.room) this.#grow(offset + length);
    return row;
  }

  prefetch(ids: IdHashes, count: number): void {
    this.#ids.prefetch(ids, count);
  }

  /** Bytes held by the columns, for measurements. */
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

  /** Growing by guess instead of step by step leaves less behind to be collected: a tenth of the columns, not four times. */
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
 * Position and parent of every entry of a log. Rows are in file order and only ever added; a parent's row is always
 * below its child's, so no walk can loop. `EntryIndex` keeps it in memory; who reads logs that are too long for that
 * brings an index that keeps it elsewhere.
 */
export interface RowIndex {
  /** Number of entries. */
  readonly length: number;
  /** Offset of a row's entry in the log: of its line, or within it where a newline was lost. */
  offset(row: number): number;
  /** Bytes of the row's line without its end, or of its part of it. */
  lineLength(row: number): number;
  /** The row of the parent, {@link ROOT} or {@link ORPHAN}. */
  parent(row: number): number;
  /** The code of the row's kind (see `kindOf`). */
  kind(row: number): number;
  /**
   * Rows of the path that ends in `row`, root first, of the kinds whose code is true in `wanted`; no step is walked for
   * kinds that the log has none of.
   */
  pathRows(row: number, wanted: readonly boolean[]): Int32Array;
  /** The newest row with this id; -1 when there is none. */
  rowOf(id: string): number;
  /** The newest row above `row` with this id; -1 when there is none. */
  rowAbove(id: string, row: number): number;
  /** Returns whether a row has this id. */
  hasId(row: number, id: string): boolean;
  /** As {@link rowOf}, for an id in bytes. */
  rowOfBytes(bytes: Uint8Array, start: number, end: number): number;
  /** Initial value of hashes of ids, see `IdHash`. */
  readonly hashSeed: number;
  /** Hashes an id in bytes, for {@link rowOfHash} and {@link parentOfHash}. */
  hashInto(hashes: IdHashes, at: number, bytes: Uint8Array, start: number, end: number): void;
  /** As {@link rowOf}, for an id that was hashed. */
  rowOfHash(hashes: IdHashes, at: number): number;
  /** As {@link rowOfHash}, fastest where it is the id of the last row: that of a parent nearly always is. */
  parentOfHash(hashes: IdHashes, at: number): number;
  /**
   * Adds a row under the id that {@link rowOfBytes} or {@link rowOfHash} was asked for last, so that no id is hashed
   * twice; returns its number. `older` is what that call gave.
   */
  add(older: number, parent: number, kind: number, offset: number, length: number): number;
  /** Loads the hash table's slots of ids that are looked up next into the processor's cache. */
  prefetch?(ids: IdHashes, count: number): void;
  /** Call before a log of so many bytes is read. */
  expect(logSize: number): void;
  /** Call when it was read. */
  settle(): void;
}

/** The parent of a root. */
export const ROOT = -1;

/** The parent of an entry whose parent is not above it: a root too, and reported. */
export const ORPHAN = -2;

/** Most rows in the buffer: enough that lookups in the table of ids overlap, few enough to stay in the cache. */
const MOST_BUFFERED = 256;

/** Rows found in the bytes that are not in the index yet: their ids are looked up many at once. */
export class RowBuffer {
  count = 0;
  /** The number of the first one's line; the others follow line by line. */
  firstLine = 1;
  readonly ids = new IdHashes(MOST_BUFFERED);
  readonly parents = new IdHashes(MOST_BUFFERED);
  readonly isRoot = new Uint8Array(MOST_BUFFERED);
  readonly kind = new Uint8Array(MOST_BUFFERED);
  readonly offset = new Float64Array(MOST_BUFFERED);
  readonly length = new Uint32Array(MOST_BUFFERED);

  /** True when there is no room for another one. */
  get isFull(): boolean {
    return this.count === MOST_BUFFERED;
  }
}
