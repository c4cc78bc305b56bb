import type { Hash } from "./hash-runs.ts";

/**
 * Tells of most ids that they were never added, and never of one that was: bits in memory, as many as it was made with,
 * however many ids there are (a Bloom filter of three bits an id).
 */
export class IdFilter {
  readonly #words: Uint32Array;
  readonly #mask: number;

  /** @param bits how many: a power of two, at least 32. With 16 for each id, one in 200 of the others is not told apart */
  constructor(bits: number) {
    this.#words = new Uint32Array(bits >>> 5);
    this.#mask = bits - 1;
  }

  add({ high, low }: Hash): void {
    this.#set(low);
    this.#set(high);
    this.#set(third(high, low));
  }

  /** False for an id that was never added. */
  mayHave({ high, low }: Hash): boolean {
    return this.#has(low) && this.#has(high) && this.#has(third(high, low));
  }

  #set(hash: number): void {
    const bit = hash & this.#mask;
    this.#words[bit >>> 5]! |= 1 << (bit & 31);
  }

  #has(hash: number): boolean {
    const bit = hash & this.#mask;
    return (this.#words[bit >>> 5]! & (1 << (bit & 31))) !== 0;
  }
}

/** A third position out of the two halves: their upper bits, which the other two positions leave out. */
const third = (high: number, low: number): number => (high >>> 16) ^ ((low >>> 16) << 9);
