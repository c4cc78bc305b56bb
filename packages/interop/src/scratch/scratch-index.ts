import type { IdHash, RowIndex } from "@espalier/session-tree";
import { HashRows, type ScratchArea, type ScratchColumn } from "./space.ts";

/**
 * Rows of a log in scratch space, for a log of any length that is read once. The last id, and ids in the order of their
 * rows, are found without a search.
 */
export class ScratchIndex implements RowIndex {
  readonly hash: IdHash;
  length = 0;
  /** Hash of each row. */
  readonly #high: ScratchColumn<Int32Array>;
  readonly #low: ScratchColumn<Int32Array>;
  readonly #newest: HashRows;
  /** Row above with the same id. */
  readonly #older: ScratchColumn<Int32Array>;
  /** True when rows share an id: the next row in order may then not be the newest. */
  #hasTwins = false;
  /** Last found row. */
  #found = -1;
  readonly #offset: ScratchColumn<Float64Array>;
  readonly #length: ScratchColumn<Uint32Array>;
  readonly #parent: ScratchColumn<Int32Array>;
  readonly #kind: ScratchColumn<Uint8Array>;

  constructor(area: ScratchArea) {
    this.hash = area.hash;
    this.#high = area.column(Int32Array);
    this.#low = area.column(Int32Array);
    this.#newest = new HashRows(area);
    this.#older = area.column(Int32Array, -1);
    this.#offset = area.column(Float64Array);
    this.#length = area.column(Uint32Array);
    this.#parent = area.column(Int32Array);
    this.#kind = area.column(Uint8Array);
  }

  offset(row: number): number {
    return this.#offset.get(row);
  }

  lineLength(row: number): number {
    return this.#length.get(row);
  }

  parent(row: number): number {
    return this.#parent.get(row);
  }

  kind(row: number): number {
    return this.#kind.get(row);
  }

  pathRows(row: number, wanted: readonly boolean[]): Int32Array {
    const rows: number[] = [];
    for (let at = row; at >= 0; at = this.parent(at)) if (wanted[this.kind(at)]) rows.push(at);
    return Int32Array.from(rows.reverse());
  }

  rowOf(id: string): number {
    this.hash.hashText(id);
    return this.rowOfHash();
  }

  rowAbove(id: string, row: number): number {
    let at = this.rowOf(id);
    while (at >= row) at = this.#older.get(at);
    return at;
  }

  hasHash(row: number): boolean {
    return this.#high.get(row) === this.hash.high && this.#low.get(row) === this.hash.low;
  }

  rowOfHash(): number {
    const last = this.length - 1;
    if (last >= 0 && this.hasHash(last)) return last;
    const next = this.#found + 1;
    const isNext = !this.#hasTwins && next < last && this.hasHash(next);
    const row = isNext ? next : this.#newest.find(this.hash);
    if (row >= 0) this.#found = row;
    return row;
  }

  parentOfHash(): number {
    return this.rowOfHash();
  }

  add(older: number, parent: number, kind: number, offset: number, length: number): number {
    const row = this.length++;
    this.#high.set(row, this.hash.high);
    this.#low.set(row, this.hash.low);
    this.#newest.set(this.hash, row);
    if (older >= 0) {
      this.#hasTwins = true;
      this.#older.set(row, older);
    }
    this.#offset.set(row, offset);
    this.#length.set(row, length);
    this.#parent.set(row, parent);
    this.#kind.set(row, kind);
    return row;
  }

  expect(): void {
    // Pages are added when they are needed.
  }

  settle(): void {
    // There are no unused pages.
  }
}
