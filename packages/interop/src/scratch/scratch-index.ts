import type { IdHash, IdHashes, RowIndex } from "@espalier/session-tree";
import { IdRows } from "./ids.ts";
import type { ScratchArea, ScratchColumn } from "./space.ts";

/** The rows of a log in scratch space: for one that is read once, however long it is. */
export class ScratchIndex implements RowIndex {
  /** Holds the id that was looked for last. */
  readonly #hash: IdHash;
  readonly #ids: IdRows;
  readonly #offset: ScratchColumn<Float64Array>;
  readonly #length: ScratchColumn<Uint32Array>;
  readonly #parent: ScratchColumn<Int32Array>;
  readonly #kind: ScratchColumn<Uint8Array>;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#ids = new IdRows(area);
    this.#offset = area.floats();
    this.#length = area.words();
    this.#parent = area.integers();
    this.#kind = area.bytes();
  }

  get length(): number {
    return this.#ids.length;
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
    return this.#ids.find(this.#hash);
  }

  rowAbove(id: string, row: number): number {
    return this.#ids.above(this.rowOf(id), row);
  }

  hasId(row: number, id: string): boolean {
    this.#hash.hashText(id);
    return this.#ids.isOf(row, this.#hash);
  }

  rowOfBytes(bytes: Uint8Array, start: number, end: number): number {
    this.#hash.hash(bytes, start, end);
    return this.#ids.find(this.#hash);
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
    return this.#ids.find(this.#hash);
  }

  parentOfHash(hashes: IdHashes, at: number): number {
    return this.rowOfHash(hashes, at);
  }

  add(older: number, parent: number, kind: number, offset: number, length: number): number {
    const row = this.length;
    this.#ids.add(this.#hash, older);
    this.#offset.set(row, offset);
    this.#length.set(row, length);
    this.#parent.set(row, parent);
    this.#kind.set(row, kind);
    return row;
  }

  expect(): void {
    // Room is made page by page.
  }

  settle(): void {
    // No page was made that is not in use.
  }
}
