import type { ByteView } from "./byte-view.ts";
import { fill, finderOf, LINE_FEED, type LineWindow } from "./line-window.ts";

/**
 * Walks `[to, from)` from its end, reading each byte once (twice in a line longer than `longest`).
 * The block is filled from its right end; the line that begins before it is carried there. A line longer than
 * the block doubles it, so that even a huge line is copied a constant number of times.
 */
export class BackwardWindow implements LineWindow {
  block: Uint8Array;
  finder: Uint8Array;
  start: number;
  end: number;
  offset: number;
  cutTerminated = false;
  /** Where the bytes in use begin: what was read before the window, then the window. */
  #low: number;
  /** The offset of `block[#low]`: everything before it is still to be read. */
  #position: number;
  readonly #view: ByteView;
  readonly #to: number;
  readonly #blockSize: number;
  readonly #longest: number;

  constructor(view: ByteView, from: number, to: number, blockSize: number, longest: number) {
    this.#view = view;
    this.#position = from;
    this.offset = from;
    this.#to = to;
    this.#blockSize = blockSize;
    this.#longest = Math.max(longest, blockSize);
    this.block = new Uint8Array(Math.min(blockSize, Math.max(1, from - to)));
    this.finder = finderOf(this.block);
    this.#low = this.start = this.end = this.block.length;
  }

  advance(): boolean {
    const carried = this.start - this.#low;
    this.block.copyWithin(this.block.length - carried, this.#low, this.start);
    this.end = this.block.length;
    this.#low = this.end - carried;
    this.cutTerminated = false;
    while (this.#position > this.#to) {
      // Two bytes beyond the longest line: its own newline and the one before it.
      if (this.#low === 0 && !this.#grow(this.#longest + 2)) return this.#cut();
      const room = Math.min(this.#low, this.#position - this.#to, this.#blockSize);
      const fresh = this.finder.subarray(this.#low - room, this.#low);
      fill(this.#view, this.#position - room, fresh);
      // The last byte of the range is the newline of its last line (or has none): it ends no earlier line.
      const found = (this.#low === this.end ? fresh.subarray(0, -1) : fresh).indexOf(LINE_FEED);
      this.#position -= room;
      this.#low -= room;
      if (found >= 0) return this.#handOut(this.#low + found + 1);
    }
    return this.#handOut(this.#low);
  }

  #handOut(start: number): boolean {
    this.start = start;
    this.offset = this.#position + (start - this.#low);
    return this.end > start;
  }

  #grow(most: number): boolean {
    const { length } = this.block;
    if (length >= most) return false;
    const larger = new Uint8Array(Math.min(length * 2, most));
    larger.set(this.block, larger.length - length);
    this.block = larger;
    this.finder = finderOf(larger);
    this.#low = larger.length - length;
    this.end = larger.length;
    return true;
  }

  /** Moves to the beginning of the line and hands out its first `longest` bytes. */
  #cut(): boolean {
    this.cutTerminated = this.block[this.end - 1] === LINE_FEED;
    const scratch = finderOf(new Uint8Array(this.#blockSize));
    for (let found = -1; this.#position > this.#to && found < 0; ) {
      const part = scratch.subarray(0, Math.min(scratch.length, this.#position - this.#to));
      fill(this.#view, this.#position - part.length, part);
      found = part.lastIndexOf(LINE_FEED);
      this.#position -= part.length - (found + 1);
    }
    fill(this.#view, this.#position, this.block.subarray(0, this.#longest));
    this.#low = 0;
    this.end = this.#longest;
    return this.#handOut(0);
  }
}
