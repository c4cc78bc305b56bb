import {
  type ByteView,
  type ForwardOptions,
  ForwardWindow,
  fill,
  LINE_FEED,
  LineWindow,
  type ScanOptions,
  searchable,
  type WindowRange,
  windowRange,
} from "./line-window.ts";
import { contentEnd, contentStart } from "./lines.ts";

/** One line of a view. */
export interface Line {
  /** From 1 for a scan from the beginning; counts blank lines too. */
  lineNumber: number;
  /** Offset in the view of the line as stored. */
  offset: number;
  /**
   * Bytes of the line as stored, with BOM and CR, without its newline: `view.read(offset, length)` returns them again.
   * At most `longest`.
   */
  length: number;
  /** The content, without BOM and CR. Valid until the next line is requested: copy what is to be kept. */
  bytes: Uint8Array;
  /** False for a last line without newline. */
  terminated: boolean;
}

/** The lines of a view in order, blank ones too: `forEachLine` with an object a line. */
export function* scanLines(view: ByteView, options: ForwardOptions = {}): Generator<Line, void> {
  const window = new ForwardWindow(view, windowRange(view, options.from, options.to, options));
  let { lineNumber = 1 } = options;
  while (window.advance()) {
    const { block } = window;
    for (let start = 0; start < window.end; lineNumber += 1) {
      const stop = window.lineStop(start);
      const offset = window.offset + start;
      const first = offset === 0 ? contentStart(block, start, stop) : start;
      const bytes = block.subarray(first, contentEnd(block, first, stop));
      yield { lineNumber, offset, length: stop - start, bytes, terminated: window.isTerminated(stop) };
      start = stop + 1;
    }
  }
}

/** Range of a walk backward. */
export interface BackwardOptions extends ScanOptions {
  /** Byte offset to begin at: the end of a line, its newline included. Default: the view's size. */
  from?: number;
  /** Byte offset to end at, the first byte of a line. Default 0. */
  to?: number;
}

/** Receives one line as a {@link LineVisitor} does; from this side the number of a line is unknown. */
export type BackwardLineVisitor = (
  block: Uint8Array,
  start: number,
  end: number,
  offset: number,
  terminated: boolean,
  // biome-ignore lint/suspicious/noConfusingVoidType: a visitor that never stops returns nothing
) => void | false;

/**
 * Visits the lines of a view from the last to the first, blank ones too; otherwise like {@link forEachLine}.
 * A caller that stops early has read at most one block beyond the visited lines.
 *
 * @throws EspalierError `shrunk` when the view ends before its size
 */
export function forEachLineBackward(
  view: ByteView,
  visit: BackwardLineVisitor,
  options: BackwardOptions = {},
): void {
  const window = new BackwardWindow(view, windowRange(view, options.to, options.from, options));
  while (window.advance()) {
    const { block, start: low } = window;
    const shift = window.offset - low;
    for (let stop = window.end; stop > low; ) {
      const last = window.lineEnd(stop);
      const start = window.lineStart(last);
      const first = start + shift === 0 ? contentStart(block, start, last) : start;
      const end = contentEnd(block, first, last);
      if (visit(block, first, end, start + shift, window.isTerminated(last)) === false) return;
      stop = start;
    }
  }
}

/**
 * The window `[start, end)` of the block, moved from the end of a range to its beginning. The block is filled from its
 * right end, and the line that begins before it is carried there.
 */
class BackwardWindow extends LineWindow {
  start: number;
  /** Beginning of the bytes in use: what was read before the window, then the window. */
  #low: number;

  constructor(view: ByteView, range: WindowRange) {
    super(view, range, range.high);
    this.#low = this.start = this.end = this.block.length;
  }

  /** Moves on to the lines before; false when there are none. */
  advance(): boolean {
    const isMore = this.#fillOn();
    if (isMore) this.finder.look(this.block, this.start, this.end);
    return isMore;
  }

  #fillOn(): boolean {
    const { low, blockSize, longest } = this.range;
    this.#carry();
    this.cutTerminated = false;
    while (this.position > low) {
      if (this.#low === 0 && !this.#grow(longest + this.end - this.lineEnd(this.end))) return this.#cut();
      const room = Math.min(this.#low, this.position - low, blockSize);
      const fresh = this.bytes.subarray(this.#low - room, this.#low);
      fill(this.view, this.position - room, fresh);
      // The last byte in use ends the last line or belongs to it: it does not begin a window.
      const found = (this.#low === this.end ? fresh.subarray(0, -1) : fresh).indexOf(LINE_FEED);
      this.position -= room;
      this.#low -= room;
      if (found >= 0) return this.#handOut(this.#low + found + 1);
    }
    return this.#handOut(this.#low);
  }

  /** Returns the end of the content of the line that stops at `stop` (exclusive, its newline included). */
  lineEnd(stop: number): number {
    return this.block[stop - 1] === LINE_FEED ? stop - 1 : stop;
  }

  /** Returns the beginning of the line whose content ends at `end`. */
  lineStart(end: number): number {
    return this.finder.startOf(end);
  }

  #handOut(start: number): boolean {
    this.start = start;
    this.offset = this.position + (start - this.#low);
    return this.end > start;
  }

  /** Takes what was read before the window to the end: of the first block again, where a larger one is needed no more. */
  #carry(): void {
    const carried = this.bytes.subarray(this.#low, this.start);
    if (this.block !== this.firstBlock && carried.length <= this.firstBlock.length / 2) {
      this.firstBlock.set(carried, this.firstBlock.length - carried.length);
      this.spare = this.block;
      this.use(this.firstBlock);
    } else this.block.copyWithin(this.block.length - carried.length, this.#low, this.start);
    this.end = this.block.length;
    this.#low = this.end - carried.length;
  }

  #grow(most: number): boolean {
    const larger = this.larger(most);
    if (!larger) return false;
    const low = larger.length - this.block.length;
    larger.set(this.block, low);
    this.use(larger);
    this.#low = low;
    this.end = larger.length;
    return true;
  }

  /** Moves to the beginning of a line of at least `longest` bytes and hands out as many. */
  #cut(): boolean {
    const { low, blockSize, longest } = this.range;
    this.cutTerminated = this.block[this.end - 1] === LINE_FEED;
    const scratch = searchable(new Uint8Array(blockSize));
    for (let found = -1; this.position > low && found < 0; ) {
      const part = scratch.subarray(0, Math.min(scratch.length, this.position - low));
      fill(this.view, this.position - part.length, part);
      found = part.lastIndexOf(LINE_FEED);
      this.position -= part.length - (found + 1);
    }
    fill(this.view, this.position, this.block.subarray(0, longest));
    this.#low = 0;
    this.end = longest;
    return this.#handOut(0);
  }
}
