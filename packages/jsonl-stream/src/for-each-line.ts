import type { ByteView } from "./byte-view.ts";
import { ForwardWindow } from "./forward-window.ts";
import { contentEnd, contentStart } from "./line-content.ts";
import { type ScanOptions, windowRange } from "./line-window.ts";

/** Which lines to walk forward. */
export interface ForwardOptions extends ScanOptions {
  /** Byte offset to begin at, the first byte of a line. Default 0. */
  from?: number;
  /** Byte offset to end before. Default: the view's size. */
  to?: number;
  /** The number of the first line. Default 1. */
  lineNumber?: number;
}

/**
 * Told of one line; returns false to stop. `block` is reused: what is to outlast the call must be copied.
 *
 * @param block - holds the line's content in `[start, end)`: without newline, one CR before it, and the file's BOM
 * @param offset - where the line as stored begins in the view: at `block[start]`, or at the BOM before that
 * @param lineNumber - counts blank lines too
 * @param terminated - false for a last line without newline
 */
export type LineVisitor = (
  block: Uint8Array,
  start: number,
  end: number,
  offset: number,
  lineNumber: number,
  terminated: boolean,
  // biome-ignore lint/suspicious/noConfusingVoidType: a visitor that never stops returns nothing
) => void | false;

/**
 * Visits the lines of a view in order, blank ones too, allocating nothing per line: the tight loop of which
 * `scanLines` is the comfortable form. Linear in bytes however long a line is.
 *
 * @throws JsonlError `shrunk` when the view ends before its size
 */
export function forEachLine(view: ByteView, visit: LineVisitor, options: ForwardOptions = {}): void {
  const window = new ForwardWindow(view, windowRange(view, options.from, options.to, options));
  let { lineNumber = 1 } = options;
  while (window.advance()) {
    const { block, offset } = window;
    for (let start = 0; start < window.end; lineNumber += 1) {
      const stop = window.lineStop(start);
      const first = offset + start === 0 ? contentStart(block, start, stop) : start;
      const end = contentEnd(block, first, stop);
      const terminated = window.isTerminated(stop);
      if (visit(block, first, end, offset + start, lineNumber, terminated) === false) return;
      start = stop + 1;
    }
  }
}
