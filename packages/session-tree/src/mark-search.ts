/** Bytes that are looked for in a whole block, and what must stand before them. */
export interface Mark {
  /** What the native search is given: it stops wherever its first byte stands, so that one should be rare. */
  readonly sought: Uint8Array;
  /** Whether what was found at `at` is the end of the mark. */
  endsAt(bytes: Uint8Array, at: number): boolean;
}

/** Finds a mark line by line with a search that covers each byte once, however many lines a block has. */
export class MarkSearch {
  #base = -1;
  #from = 0;
  #next = -1;
  #block: Uint8Array = new Uint8Array();
  #finder = finderOf(this.#block);
  readonly #mark: Mark;
  readonly #sought: Uint8Array | number;

  constructor(mark: Mark) {
    this.#mark = mark;
    const { sought } = mark;
    // Several bytes at once only where Buffer searches for them; and one byte as a number is found fastest.
    this.#sought = sought.length === 1 || globalThis.Buffer === undefined ? sought[0]! : finderOf(sought);
  }

  /**
   * True when the mark ends in `block[from, end)`. `base` is the offset of the block's first byte in the log: a block
   * buffer is used again and again, and the last answer helps only within the same bytes.
   */
  between(block: Uint8Array, base: number, from: number, end: number): boolean {
    if (block !== this.#block) {
      this.#block = block;
      this.#finder = finderOf(block);
      this.#base = -1;
    }
    if (base !== this.#base || from < this.#from || from > this.#next) {
      this.#base = base;
      this.#search(from);
    }
    this.#from = from;
    // What is found is nearly always in a line further on: no need to look at it closely.
    while (this.#next < end && !this.#mark.endsAt(block, this.#next)) this.#search(this.#next + 1);
    return this.#next < end;
  }

  #search(from: number): void {
    const at = this.#finder.indexOf(this.#sought as number, from);
    this.#next = at < 0 ? NOWHERE : at;
  }
}

/** No block is as long. */
const NOWHERE = 0x7fffffff;

/** The same memory with the fastest search for a byte: Node's Buffer has memchr, browsers only what Uint8Array has. */
function finderOf(bytes: Uint8Array): Uint8Array {
  const buffer = globalThis.Buffer;
  if (buffer === undefined) return bytes;
  return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
