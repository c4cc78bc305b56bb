import type { ByteView } from "./byte-view.ts";
import type { LineFinder } from "./line-finder.ts";
import { fill, firstBlock, GROWTH, LINE_FEED, searchable, type WindowRange } from "./line-window.ts";
import { NewlineFinder } from "./newline-finder.ts";

/**
 * Whole lines in a reused block, moved from the beginning of a range to its end. Each byte is read once (twice what
 * lies beyond the cut of a line longer than `longest`). The bytes after a block's last newline are carried to the
 * front; a line longer than the block makes it grow until that line is through.
 */
export class ForwardWindow {
  block: Uint8Array;
  /** The window is `[0, end)` of the block; only its last line may lack a newline. */
  end = 0;
  /** Where the block begins in the view. */
  offset: number;
  #cutTerminated = false;
  /** The block, as it is searched fastest. */
  #bytes: Uint8Array;
  readonly #firstBlock: Uint8Array;
  /** A larger block that was needed once, for the next line that needs one. */
  #spare: Uint8Array | undefined;
  readonly #finder: LineFinder;
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
    this.#finder = range.finder ?? new NewlineFinder();
    this.#firstBlock = firstBlock(range);
    this.block = this.#firstBlock;
    this.#bytes = searchable(this.block);
  }

  /** Moves on to the next lines; false when there are none. */
  advance(): boolean {
    const isMore = this.#fillOn();
    if (isMore) this.#finder.look(this.block, 0, this.end);
    return isMore;
  }

  #fillOn(): boolean {
    const { high, blockSize, longest } = this.#range;
    this.#carry();
    this.offset = this.#position - this.#filled;
    this.#cutTerminated = false;
    while (this.#position < high) {
      if (this.#filled === this.block.length && !this.#grow(longest)) return this.#cut();
      const room = Math.min(this.block.length - this.#filled, high - this.#position, blockSize);
      const fresh = this.#bytes.subarray(this.#filled, this.#filled + room);
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
    return this.#finder.stopOf(start);
  }

  /** Whether the line that stops at `stop` has its newline. */
  isTerminated(stop: number): boolean {
    return stop < this.end || this.#cutTerminated;
  }

  /** Takes what was read beyond the window to the front: of the first block again, where a larger one is needed no more. */
  #carry(): void {
    const carried = this.#filled - this.end;
    if (this.block !== this.#firstBlock && carried <= this.#firstBlock.length / 2) {
      this.#firstBlock.set(this.block.subarray(this.end, this.#filled));
      this.#spare = this.block;
      this.#use(this.#firstBlock);
    } else this.block.copyWithin(0, this.end, this.#filled);
    this.#filled = carried;
  }

  #grow(most: number): boolean {
    if (this.block.length >= most) return false;
    const length = Math.min(this.block.length * GROWTH, most);
    const larger = this.#spare && this.#spare.length >= length ? this.#spare : new Uint8Array(length);
    larger.set(this.block);
    this.#use(larger);
    return true;
  }

  #use(block: Uint8Array): void {
    this.block = block;
    this.#bytes = searchable(block);
  }

  /** Hands out the line's `longest` bytes in the block, which may be all of it, and moves behind its newline. */
  #cut(): boolean {
    const { high, blockSize, longest } = this.#range;
    const scratch = searchable(new Uint8Array(blockSize));
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
