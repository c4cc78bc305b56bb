/**
 * Finds lines on which a second entry may stand, behind a write that was cut or a newline that was lost. Every entry has one
 * `"parentId":` (inside a text its quotes are escaped, so it reads otherwise); a second one on the same line means
 * the line has to be parsed to know. The searches are native and cover each byte once, however many lines a block has.
 */
export class GlueMarks {
  #base = -1;
  #from = 0;
  #next = -1;
  #block: Uint8Array = new Uint8Array();
  #finder = finderOf(this.#block);

  /**
   * True when `"parentId":` stands in `block[from, end)`. `base` is the offset of the block's first byte in the log: a
   * block buffer is used again and again, and the last answer helps only within the same bytes.
   */
  between(block: Uint8Array, base: number, from: number, end: number): boolean {
    if (block !== this.#block) {
      this.#block = block;
      this.#finder = finderOf(block);
      this.#base = -1;
    }
    if (base !== this.#base || from < this.#from || from > this.#next) {
      this.#base = base;
      this.#next = find(this.#finder, from);
    }
    this.#from = from;
    return this.#next < end;
  }
}

/** True when bytes have the mark: what stands behind something else on a line must, to be taken for an entry. */
export function hasMark(bytes: Uint8Array): boolean {
  return find(finderOf(bytes), 0) < bytes.length;
}

const encoder = new TextEncoder();
const MARK = encoder.encode('"parentId":');

/**
 * What is searched for. A native search of a short text jumps from one of its first bytes to the next, and a capital I
 * is rare where quotes are everywhere: this finds the mark five times as fast as the mark itself would.
 */
const RARE = encoder.encode('Id":');
const RARE_AT = MARK.length - RARE.length;

/** Node's Buffer searches natively for several bytes, a browser's Uint8Array for single ones only. */
interface Finder extends ArrayLike<number> {
  indexOf(sought: Uint8Array | number, from: number): number;
}

function finderOf(bytes: Uint8Array): Finder {
  const buffer = globalThis.Buffer;
  if (buffer === undefined) return bytes as Finder;
  return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const rare: Uint8Array | number = globalThis.Buffer === undefined ? RARE[0]! : globalThis.Buffer.from(RARE);

/** The position of the next mark at or behind `from`; beyond the bytes when there is none. */
function find(finder: Finder, from: number): number {
  for (let at = finder.indexOf(rare, from + RARE_AT); at >= 0; at = finder.indexOf(rare, at + RARE.length)) {
    const start = at - RARE_AT;
    let same = 0;
    while (same < MARK.length && finder[start + same] === MARK[same]) same++;
    if (same === MARK.length) return start;
  }
  return Number.POSITIVE_INFINITY;
}
