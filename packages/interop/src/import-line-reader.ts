import type { ByteView } from "@espalier/jsonl-stream";

/** Bytes read at a time: lines are mostly asked for in the order in which they stand. */
const BLOCK = 1 << 20;

/** Reads lines out of a view wherever they stand; those that follow one another cost one read a block. */
export class LineReader {
  readonly #view: ByteView;
  #block: Uint8Array = new Uint8Array();
  #start = 0;

  constructor(view: ByteView) {
    this.#view = view;
  }

  /** The bytes of a line, good until the next call. */
  read(offset: number, length: number): Uint8Array {
    const from = offset - this.#start;
    if (from >= 0 && from + length <= this.#block.length) return this.#block.subarray(from, from + length);
    if (length > BLOCK) return this.#view.read(offset, length);
    this.#block = this.#view.read(offset, BLOCK);
    this.#start = offset;
    return this.#block.subarray(0, length);
  }
}
