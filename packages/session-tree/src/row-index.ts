import type { IdHashes } from "./id-hashes.ts";
import type { WaitingRows } from "./waiting-rows.ts";

/**
 * Where every entry of a log is and what it follows. Rows are in file order and only ever added; a parent's row is always
 * below its child's, so no walk can loop. `EntryIndex` keeps it in memory; who reads logs that are too long for that
 * brings an index that keeps it elsewhere.
 */
export interface RowIndex {
  /** How many entries there are. */
  readonly length: number;
  /** Where the entry of a row begins in the log: with its line, or within it where a newline was lost. */
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
  /** Whether a row has this id. */
  hasId(row: number, id: string): boolean;
  /** As {@link rowOf}, for an id that stands in bytes. */
  rowOfBytes(bytes: Uint8Array, start: number, end: number): number;
  /** What a hash of an id begins with, see `IdHash`. */
  readonly hashSeed: number;
  /** Hashes an id that stands in bytes, for {@link rowOfHash} and {@link parentOfHash}. */
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
  /**
   * Adds rows that wait, from the one at `from` on, as long as each has an id of its own and its parent above it.
   * Returns how many of them are settled: where that is not all, the next one has to be looked at closely.
   */
  addPlain(rows: WaitingRows, from: number): number;
  /** To be told before a log of so many bytes is read. */
  expect(logSize: number): void;
  /** To be told when it was read. */
  settle(): void;
}

/** The parent of a root. */
export const ROOT = -1;

/** The parent of an entry whose parent is not above it: a root too, and reported. */
export const ORPHAN = -2;
