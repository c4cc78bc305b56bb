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
  /** Number of the line, counted from 1 at the beginning of the scan. Blank lines count. */
  lineNumber: number;
  /** Offset in the view of the line as stored. */
  offset: number;
  /**
   * Bytes of the line as stored, with BOM and CR, without its newline: `view.read(offset, length)` returns them. At
   * most `longest`.
   */
  length: number;
  /** Content of the line, without BOM and CR. Valid until the next line is requested: copy it to keep it. */
  bytes: Uint8Array;
  /** False for a last line without newline. */
  terminated: boolean;
}

/** Yields the lines of a view in order, including blank ones: `forEachLine` with an object per line. */
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

/** Options of a walk backward. */
export interface BackwardOptions extends ScanOptions {
  /** Byte offset of the beginning: the end of a line, including its newline. Default: the view's size. */
  from?: number;
  /** Byte offset of the end: the first byte of a line. Default 0. */
  to?: number;
}

/** Receives one line, like a {@link LineVisitor}, but without the line's number, which is not known. */
export type BackwardLineVisitor = (
  block: Uint8Array,
  start: number,
  end: number,
  offset: number,
  terminated: boolean,
  // biome-ignore lint/suspicious/noConfusingVoidType: a visitor that never stops returns nothing
) => void | false;

/**
 * Visits the lines of a view from the last to the first, including blank ones; otherwise like {@link forEachLine}. When
 * the visitor stops, at most one block beyond the visited lines has been read.
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
 * right end, and an incomplete line at its beginning is moved there.
 */
class BackwardWindow extends LineWindow {
  start: number;
  /** Beginning of the used bytes: bytes that were read before the window, and the window. */
  #low: number;

  constructor(view: ByteView, range: WindowRange) {
    super(view, range, range.high);
    this.#low = this.start = this.end = this.block.length;
  }

  /** Moves to the previous lines; returns false when there are none. */
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
      // The last byte in use ends the last line or belongs to it, so it cannot be the newline before a window.
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

  /**
   * Moves the bytes before the window to the end of the block, or of the first block when a larger one is no longer
   * needed.
   */
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

  /** Moves to the beginning of a line of at least `longest` bytes, and makes its first `longest` bytes the window. */
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
