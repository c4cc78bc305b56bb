import { IdTable, ROWS_GROWTH } from "./id-table.ts";

/** The parent of a root. */
export const ROOT = -1;

/** The parent of an entry whose parent is not above it: a root too, and reported. */
export const ORPHAN = -2;

/**
 * Where every entry of a log is and what it follows, as columns of numbers: 35 to 47 bytes an entry, whatever it says.
 * Rows are in file order and only ever added; a parent's row is always below its child's, so no walk can loop.
 */
export class EntryIndex {
  #offset = new Float64Array(64);
  #length = new Uint32Array(64);
  #parent = new Int32Array(64);
  #kind = new Uint8Array(64);
  #rows = 0;
  readonly #ids = new IdTable();
  /** For rows whose id other rows have too: all of them, in order. Rare, so a map and not a column. */
  readonly #namesakes = new Map<number, number[]>();

  /** How many entries there are. */
  get length(): number {
    return this.#rows;
  }

  /** Byte offset of the row's line. */
  offset(row: number): number {
    return this.#offset[row]!;
  }

  /** Bytes of the row's line, without its end. */
  lineLength(row: number): number {
    return this.#length[row]!;
  }

  /** The row of the parent, {@link ROOT} or {@link ORPHAN}. */
  parent(row: number): number {
    return this.#parent[row]!;
  }

  /** The code of the row's kind (see `kindOf`). */
  kind(row: number): number {
    return this.#kind[row]!;
  }

  /** The newest row with this id; -1 when there is none. */
  rowOf(id: string): number {
    this.#ids.hashText(id);
    return this.#ids.find();
  }

  /** The newest row above `row` with this id; -1 when there is none. */
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

  /** Whether a row has this id. */
  hasId(row: number, id: string): boolean {
    this.#ids.hashText(id);
    return this.#ids.isOf(row);
  }

  /** As {@link rowOf}, for an id that stands in bytes. */
  rowOfBytes(bytes: Uint8Array, start: number, end: number): number {
    this.#ids.hash(bytes, start, end);
    return this.#ids.find();
  }

  /** As {@link rowOfBytes}, fastest where it is the id of the last row: that of a parent nearly always is. */
  parentOfBytes(bytes: Uint8Array, start: number, end: number): number {
    this.#ids.hash(bytes, start, end);
    return this.#ids.findNear();
  }

  /**
   * Adds a row under the id that {@link rowOfBytes} was asked for last, so that no id is hashed twice; returns its
   * number. `older` is what that call gave.
   */
  add(older: number, parent: number, kind: number, offset: number, length: number): number {
    const row = this.#rows++;
    if (row === this.#offset.length) this.#grow();
    this.#offset[row] = offset;
    this.#length[row] = length;
    this.#parent[row] = parent;
    this.#kind[row] = kind;
    this.#ids.add();
    if (older >= 0) this.#addNamesake(older, row);
    return row;
  }

  /** Bytes held by the columns, for whoever measures. */
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

  #grow(): void {
    const size = Math.ceil(this.#offset.length * ROWS_GROWTH);
    this.#offset = copyInto(new Float64Array(size), this.#offset);
    this.#length = copyInto(new Uint32Array(size), this.#length);
    this.#parent = copyInto(new Int32Array(size), this.#parent);
    this.#kind = copyInto(new Uint8Array(size), this.#kind);
  }
}

function copyInto<Column extends { set(source: Column): void }>(target: Column, source: Column): Column {
  target.set(source);
  return target;
}
