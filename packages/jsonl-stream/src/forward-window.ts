import type { ByteView } from "./byte-view.ts";
import { fill, finderOf, LINE_FEED, type LineWindow } from "./line-window.ts";

/**
 * Walks `[from, to)` forward, reading each byte once (twice beyond the cut of a line longer than `longest`).
 * The bytes after a block's last newline are carried to the front; a line longer than the block doubles it.
 */
export class ForwardWindow implements LineWindow {
  block: Uint8Array;
  finder: Uint8Array;
  readonly start = 0;
  end = 0;
  offset: number;
  cutTerminated = false;
  /** Bytes of the block in use: the window, then what was read beyond it. */
  #filled = 0;
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
    this.block = new Uint8Array(Math.min(blockSize, Math.max(1, to - from)));
    this.finder = finderOf(this.block);
  }

  advance(): boolean {
    this.block.copyWithin(0, this.end, this.#filled);
    this.#filled -= this.end;
    this.offset = this.#position - this.#filled;
    this.cutTerminated = false;
    while (this.#position < this.#to) {
      // One byte beyond the longest line, for its newline.
      if (this.#filled === this.block.length && !this.#grow(this.#longest + 1)) return this.#cut();
      const room = Math.min(this.block.length - this.#filled, this.#to - this.#position, this.#blockSize);
      const fresh = this.finder.subarray(this.#filled, this.#filled + room);
      fill(this.#view, this.#position, fresh);
      const last = fresh.lastIndexOf(LINE_FEED);
      if (last >= 0) this.end = this.#filled + last + 1;
      this.#position += room;
      this.#filled += room;
      if (last >= 0) return true;
    }
    this.end = this.#filled;
    return this.end > 0;
  }

  #grow(most: number): boolean {
    if (this.block.length >= most) return false;
    const larger = new Uint8Array(Math.min(this.block.length * 2, most));
    larger.set(this.block);
    this.block = larger;
    this.finder = finderOf(larger);
    return true;
  }

  /** Hands out the first `longest` bytes of the line and moves behind its newline. */
  #cut(): boolean {
    const scratch = finderOf(new Uint8Array(this.#blockSize));
    while (this.#position < this.#to && !this.cutTerminated) {
      const part = scratch.subarray(0, Math.min(scratch.length, this.#to - this.#position));
      fill(this.#view, this.#position, part);
      const found = part.indexOf(LINE_FEED);
      this.cutTerminated = found >= 0;
      this.#position += found >= 0 ? found + 1 : part.length;
    }
    this.end = this.#longest;
    this.#filled = this.#longest;
    return true;
  }
}
