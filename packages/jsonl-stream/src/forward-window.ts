import type { ByteView } from "./byte-view.ts";
import { fill, finderOf, firstBlock, GROWTH, LINE_FEED, type WindowRange } from "./line-window.ts";

/**
 * Whole lines in a reused block, moved from the beginning of a range to its end. Each byte is read once (twice what
 * lies beyond the cut of a line longer than `longest`). The bytes after a block's last newline are carried to the
 * front; a line longer than the block makes it grow.
 */
export class ForwardWindow {
  block: Uint8Array;
  /** The window is `[0, end)` of the block; only its last line may lack a newline. */
  end = 0;
  /** Where the block begins in the view. */
  offset: number;
  #cutTerminated = false;
  #finder: Uint8Array;
  /** Bytes of the block in use: the window, then what was read beyond it. */
  #filled = 0;
  #position: number;
  readonly #view: ByteView;
  readonly #range: WindowRange;

  constructor(view: ByteView, range: WindowRange) {
    this.#view = view;
    this.#range = range;
    this.#position = range.low;
    this.offset = range.low;
    this.block = firstBlock(range);
    this.#finder = finderOf(this.block);
  }

  /** Moves on to the next lines; false when there are none. */
  advance(): boolean {
    const { high, blockSize, longest } = this.#range;
    this.block.copyWithin(0, this.end, this.#filled);
    this.#filled -= this.end;
    this.offset = this.#position - this.#filled;
    this.#cutTerminated = false;
    while (this.#position < high) {
      if (this.#filled === this.block.length && !this.#grow(longest)) return this.#cut();
      const room = Math.min(this.block.length - this.#filled, high - this.#position, blockSize);
      const fresh = this.#finder.subarray(this.#filled, this.#filled + room);
      fill(this.#view, this.#position, fresh);
      const last = fresh.lastIndexOf(LINE_FEED);
      this.end = this.#filled + last + 1;
      this.#position += room;
      this.#filled += room;
      if (last >= 0) return true;
    }
    this.end = this.#filled;
    return this.end > 0;
  }

  /** Where the line that begins at `start` stops: at its newline, or at the window's end. */
  lineStop(start: number): number {
    const found = this.#finder.indexOf(LINE_FEED, start);
    return found >= 0 && found < this.end ? found : this.end;
  }

  /** Whether the line that stops at `stop` has its newline. */
  isTerminated(stop: number): boolean {
    return stop < this.end || this.#cutTerminated;
  }

  #grow(most: number): boolean {
    if (this.block.length >= most) return false;
    const larger = new Uint8Array(Math.min(this.block.length * GROWTH, most));
    larger.set(this.block);
    this.block = larger;
    this.#finder = finderOf(larger);
    return true;
  }

  /** Hands out the line's `longest` bytes in the block, which may be all of it, and moves behind its newline. */
  #cut(): boolean {
    const { high, blockSize, longest } = this.#range;
    const scratch = finderOf(new Uint8Array(blockSize));
    while (this.#position < high && !this.#cutTerminated) {
      const part = scratch.subarray(0, Math.min(scratch.length, high - this.#position));
      fill(this.#view, this.#position, part);
      const found = part.indexOf(LINE_FEED);
      this.#cutTerminated = found >= 0;
      this.#position += found >= 0 ? found + 1 : part.length;
    }
    this.end = longest;
    this.#filled = longest;
    return true;
  }
}
