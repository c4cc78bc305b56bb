import type { IdHash, IdHashes, RowIndex } from "@espalier/session-tree";
import { HashRows, type ScratchArea, type ScratchColumn } from "./space.ts";

/**
 * Rows of a log in scratch space, for a log of any length that is read once. The last id, and ids in the order of their
 * rows, are found without a search.
 */
export class ScratchIndex implements RowIndex {
  /** Hash of the last searched id. */
  readonly #hash: IdHash;
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
    this.#hash = area.hash;
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
    this.#hash.hashText(id);
    return this.#find();
  }

  rowAbove(id: string, row: number): number {
    let at = this.rowOf(id);
    while (at >= row) at = this.#older.get(at);
    return at;
  }

  hasId(row: number, id: string): boolean {
    this.#hash.hashText(id);
    return this.#isOf(row);
  }

  rowOfBytes(bytes: Uint8Array, start: number, end: number): number {
    this.#hash.hash(bytes, start, end);
    return this.#find();
  }

  get hashSeed(): number {
    return this.#hash.seed;
  }

  hashInto(hashes: IdHashes, at: number, bytes: Uint8Array, start: number, end: number): void {
    this.#hash.hash(bytes, start, end);
    hashes.low[at] = this.#hash.low;
    hashes.high[at] = this.#hash.high;
  }

  rowOfHash({ low, high }: IdHashes, at: number): number {
    this.#hash.low = low[at]!;
    this.#hash.high = high[at]!;
    return this.#find();
  }

  parentOfHash(hashes: IdHashes, at: number): number {
    return this.rowOfHash(hashes, at);
  }

  add(older: number, parent: number, kind: number, offset: number, length: number): number {
    const row = this.length++;
    this.#high.set(row, this.#hash.high);
    this.#low.set(row, this.#hash.low);
    this.#newest.set(this.#hash, row);
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

  /** Returns the newest row with the last hashed id; -1 when there is none. */
  #find(): number {
    const last = this.length - 1;
    if (last >= 0 && this.#isOf(last)) return last;
    const next = this.#found + 1;
    const row = !this.#hasTwins && next < last && this.#isOf(next) ? next : this.#newest.find(this.#hash);
    if (row >= 0) this.#found = row;
    return row;
  }

  #isOf(row: number): boolean {
    return this.#high.get(row) === this.#hash.high && this.#low.get(row) === this.#hash.low;
  }
}
