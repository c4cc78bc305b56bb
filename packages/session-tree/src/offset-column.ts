import { resized } from "./column.ts";

/** The first offset that 32 bits do not hold. */
const TURN = 2 ** 32;

/**
 * Where the lines of a log begin, by row and in file order. Offsets only grow, so the low half of each is enough, and the
 * rows at which the high half grows: four bytes a row instead of eight.
 */
export class OffsetColumn {
  #low: Uint32Array;
  /** The first row behind every 4 GiB of the log: nearly always none. */
  readonly #turns: number[] = [];

  constructor(room: number) {
    this.#low = new Uint32Array(room);
  }

  /** Rows that there is room for. */
  get room(): number {
    return this.#low.length;
  }

  get byteLength(): number {
    return this.#low.byteLength;
  }

  /** The offset of a row. */
  at(row: number): number {
    const turns = this.#turns;
    let passed = turns.length;
    while (passed > 0 && row < turns[passed - 1]!) passed--;
    return passed * TURN + this.#low[row]!;
  }

  /** Sets the offset of the next row, which lies behind those of all rows before it. */
  set(row: number, offset: number): void {
    while (offset >= (this.#turns.length + 1) * TURN) this.#turns.push(row);
    this.#low[row] = offset;
  }

  resize(room: number): void {
    this.#low = resized(this.#low, new Uint32Array(room));
  }
}
