import type { ByteView } from "@espalier/jsonl-stream";

/** Bytes read at a time: lines are mostly asked for in the order in which they stand. */
const BLOCK = 1 << 20;

/** Reads lines out of a view wherever they stand; those that follow one another, down or up, cost one read a block. */
export class LineReader {
  readonly #view: ByteView;
  /** Reused: a fresh block for each read costs more than the read. */
  readonly #block: Uint8Array;
  #start = 0;
  #length = 0;

  constructor(view: ByteView) {
    this.#view = view;
    this.#block = new Uint8Array(Math.min(BLOCK, view.size));
  }

  /** The bytes of a line, good until the next call. */
  read(offset: number, length: number): Uint8Array {
    if (length > this.#block.length) return this.#view.read(offset, length);
    if (offset < this.#start || offset + length > this.#start + this.#length) {
      // Who asks for a line above the block goes on upwards.
      this.#start = offset < this.#start ? Math.max(0, offset + length - this.#block.length) : offset;
      this.#length = this.#view.readInto(this.#start, this.#block);
    }
    return this.#block.subarray(offset - this.#start, offset - this.#start + length);
  }
}
