import type { ByteView } from "./byte-view.ts";
import { ForwardWindow } from "./forward-window.ts";
import { contentEnd, contentStart } from "./line-content.ts";
import { BLOCK_SIZE, LINE_FEED, LONGEST_VISITED, type ScanOptions } from "./line-window.ts";

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
 * Told of one line. `block` is reused: what is to outlast the call must be copied.
 *
 * @param block - holds the line's content in `[start, end)`: without newline, one CR before it, and the file's BOM
 * @param offset - where the line as stored begins in the view: `block[start]`, except that a BOM stands before that
 * @param lineNumber - counts blank lines too
 * @param terminated - false for a last line without newline
 * @returns false to stop
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
 * Visits the lines of a view in order, blank ones too, without allocating anything per line: the tight loop
 * that {@link scanLines} is the comfortable form of. Linear in bytes however long a line is.
 *
 * @throws JsonlError `shrunk` when the view ends before its size
 */
export function forEachLine(view: ByteView, visit: LineVisitor, options: ForwardOptions = {}): void {
  const { from = 0, to = view.size, blockSize = BLOCK_SIZE, longest = LONGEST_VISITED } = options;
  let { lineNumber = 1 } = options;
  const window = new ForwardWindow(view, from, to, blockSize, longest);
  while (window.advance()) {
    const { block, finder, offset, end } = window;
    for (let start = 0; start < end; ) {
      const found = finder.indexOf(LINE_FEED, start);
      const terminated = found >= 0 && found < end;
      const stop = terminated ? found : end;
      const first = offset + start === 0 ? contentStart(block, start, stop) : start;
      const last = contentEnd(block, first, stop);
      if (visit(block, first, last, offset + start, lineNumber, terminated || window.cutTerminated) === false)
        return;
      lineNumber += 1;
      start = stop + 1;
    }
  }
}
