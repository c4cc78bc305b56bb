/**
 * Finds lines on which a second entry may stand: a write that was cut, and the next one glued to it. Every entry has one
 * `"parentId":` (inside a text its quotes are escaped, so it reads otherwise); a second one on the same line means
 * the line has to be parsed to know. One native search over the block, however many lines it has.
 */
export class GlueMarks {
  #base = -1;
  #from = 0;
  #next = -1;

  /**
   * True when `"parentId":` stands in `block[from, end)`. `base` is the offset of the block's first byte in the log: a
   * block buffer is used again and again, and the last answer helps only within the same bytes.
   */
  between(block: Uint8Array, base: number, from: number, end: number): boolean {
    if (base !== this.#base || from < this.#from || from > this.#next) {
      this.#base = base;
      this.#next = find(block, from);
    }
    this.#from = from;
    return this.#next < end;
  }
}

const MARK = '"parentId":';
const MARK_BYTES = new TextEncoder().encode(MARK);
const QUOTE = MARK_BYTES[0]!;

/** True when bytes have the mark: what is found behind a torn line must, to be taken for an entry. */
export function hasMark(bytes: Uint8Array): boolean {
  return find(bytes, 0) < bytes.length;
}

/** The position of the next mark at or behind `from`; beyond the block when there is none. */
function find(block: Uint8Array, from: number): number {
  // Node's Buffer searches for a string natively, a browser's Uint8Array for single bytes only.
  if (typeof Buffer !== "undefined") {
    const found = Buffer.from(block.buffer, block.byteOffset, block.byteLength).indexOf(MARK, from, "latin1");
    return found < 0 ? Number.POSITIVE_INFINITY : found;
  }
  for (let at = block.indexOf(QUOTE, from); at >= 0; at = block.indexOf(QUOTE, at + 1)) {
    if (MARK_BYTES.every((byte, i) => block[at + i] === byte)) return at;
  }
  return Number.POSITIVE_INFINITY;
}
