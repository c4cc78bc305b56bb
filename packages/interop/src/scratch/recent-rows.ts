import type { Hash } from "./hash-runs.ts";

/** How many there is room for: a power of two. What a line follows stands a few lines above it, nearly always. */
const PLACES = 1 << 13;

/** The rows of late by hash. Each hash has one place, and whoever comes later takes it. */
export class RecentRows {
  readonly #high = new Int32Array(PLACES);
  readonly #low = new Int32Array(PLACES);
  readonly #row = new Int32Array(PLACES).fill(-1);

  /** -1 when it is not, or no more, there. */
  find({ high, low }: Hash): number {
    const place = low & (PLACES - 1);
    return this.#high[place] === high && this.#low[place] === low ? this.#row[place]! : -1;
  }

  set({ high, low }: Hash, row: number): void {
    const place = low & (PLACES - 1);
    this.#high[place] = high;
    this.#low[place] = low;
    this.#row[place] = row;
  }
}
