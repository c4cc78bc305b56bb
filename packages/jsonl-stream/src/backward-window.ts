import type { ByteView } from "./byte-view.ts";
import type { LineFinder } from "./line-finder.ts";
import { fill, firstBlock, GROWTH, LINE_FEED, searchable, type WindowRange } from "./line-window.ts";
import { NewlineFinder } from "./newline-finder.ts";

/**
 * Whole lines in a reused block, moved from the end of a range to its beginning. Each byte is read once (twice in a
 * line longer than `longest`). The block is filled from its right end, and the line that begins before it is
 * carried there; a line longer than the block makes it grow until that line is through, so seldom that a huge one is
 * hardly ever copied.
 */
export class BackwardWindow {
  block: Uint8Array;
  /** The window is `[start, end)` of the block; only its last line may lack a newline. */
  start: number;
  end: number;
  /** Where `block[start]` stands in the view. */
  offset: number;
  #cutTerminated = false;
  /** The block, as it is searched fastest. */
  #bytes: Uint8Array;
  readonly #firstBlock: Uint8Array;
  /** A larger block that was needed once, for the next line that needs one. */
  #spare: Uint8Array | undefined;
  readonly #finder: LineFinder;
  /** Where the bytes in use begin: what was read before the window, then the window. */
  #low: number;
  /** Where `block[#low]` stands in the view: everything before is still to be read. */
  #position: number;
  readonly #view: ByteView;
  readonly #range: WindowRange;

  constructor(view: ByteView, range: WindowRange) {
    this.#view = view;
    this.#range = range;
    this.#position = range.high;
    this.offset = range.high;
    this.#finder = range.finder ?? new NewlineFinder();
    this.#firstBlock = firstBlock(range);
    this.block = this.#firstBlock;
    this.#bytes = searchable(this.block);
    this.#low = this.start = this.end = this.block.length;
  }

  /** Moves on to the lines before; false when there are none. */
  advance(): boolean {
    const isMore = this.#fillOn();
    if (isMore) this.#finder.look(this.block, this.start, this.end);
    return isMore;
  }

  #fillOn(): boolean {
    const { low, blockSize, longest } = this.#range;
    this.#carry();
    this.#cutTerminated = false;
    while (this.#position > low) {
      if (this.#low === 0 && !this.#grow(longest + this.end - this.lineEnd(this.end))) return this.#cut();
      const room = Math.min(this.#low, this.#position - low, blockSize);
      const fresh = this.#bytes.subarray(this.#low - room, this.#low);
      fill(this.#view, this.#position - room, fresh);
      // The last byte in use ends the last line or belongs to it: it does not begin a window.
      const found = (this.#low === this.end ? fresh.subarray(0, -1) : fresh).indexOf(LINE_FEED);
      this.#position -= room;
      this.#low -= room;
      if (found >= 0) return this.#handOut(this.#low + found + 1);
    }
    return this.#handOut(this.#low);
  }

  /** Where the content of the line that stops at `stop` (exclusive, its newline included) ends. */
  lineEnd(stop: number): number {
    return this.block[stop - 1] === LINE_FEED ? stop - 1 : stop;
  }

  /** Where the line begins whose content ends at `end`. */
  lineStart(end: number): number {
    return this.#finder.startOf(end);
  }

  /** Whether the line whose content ends at `end` has its newline. */
  isTerminated(end: number): boolean {
    return end < this.end || this.#cutTerminated;
  }

  #handOut(start: number): boolean {
    this.start = start;
    this.offset = this.#position + (start - this.#low);
    return this.end > start;
  }

  /** Takes what was read before the window to the end: of the first block again, where a larger one is needed no more. */
  #carry(): void {
    const carried = this.#bytes.subarray(this.#low, this.start);
    if (this.block !== this.#firstBlock && carried.length <= this.#firstBlock.length / 2) {
      this.#firstBlock.set(carried, this.#firstBlock.length - carried.length);
      this.#spare = this.block;
      this.#use(this.#firstBlock);
    } else this.block.copyWithin(this.block.length - carried.length, this.#low, this.start);
    this.end = this.block.length;
    this.#low = this.end - carried.length;
  }

  #grow(most: number): boolean {
    const { length } = this.block;
    if (length >= most) return false;
    const wanted = Math.min(length * GROWTH, most);
    const larger = this.#spare && this.#spare.length >= wanted ? this.#spare : new Uint8Array(wanted);
    larger.set(this.block, larger.length - length);
    this.#use(larger);
    this.#low = larger.length - length;
    this.end = larger.length;
    return true;
  }

  #use(block: Uint8Array): void {
    this.block = block;
    this.#bytes = searchable(block);
  }

  /** Moves to the beginning of a line of at least `longest` bytes and hands out as many. */
  #cut(): boolean {
    const { low, blockSize, longest } = this.#range;
    this.#cutTerminated = this.block[this.end - 1] === LINE_FEED;
    const scratch = searchable(new Uint8Array(blockSize));
    for (let found = -1; this.#position > low && found < 0; ) {
      const part = scratch.subarray(0, Math.min(scratch.length, this.#position - low));
      fill(this.#view, this.#position - part.length, part);
      found = part.lastIndexOf(LINE_FEED);
      this.#position -= part.length - (found + 1);
    }
    fill(this.#view, this.#position, this.block.subarray(0, longest));
    this.#low = 0;
    this.end = longest;
    return this.#handOut(0);
  }
}
