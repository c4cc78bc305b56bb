import { BackwardWindow } from "./backward-window.ts";
import type { ByteView } from "./byte-view.ts";
import { contentEnd, contentStart } from "./line-content.ts";
import { BLOCK_SIZE, LINE_FEED, LONGEST_VISITED, type ScanOptions } from "./line-window.ts";

/** Which lines to walk backward. */
export interface BackwardOptions extends ScanOptions {
  /** Byte offset to begin at: the end of a line, its newline included. Default: the view's size. */
  from?: number;
  /** Byte offset to end at, the first byte of a line. Default 0. */
  to?: number;
}

/** Told of one line, as a {@link LineVisitor} is; the number of a line is not known from this side. */
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
 * Whoever stops early has read little more than the lines visited.
 *
 * @throws JsonlError `shrunk` when the view ends before its size
 */
export function forEachLineBackward(
  view: ByteView,
  visit: BackwardLineVisitor,
  options: BackwardOptions = {},
): void {
  const { from = view.size, to = 0, blockSize = BLOCK_SIZE, longest = LONGEST_VISITED } = options;
  const window = new BackwardWindow(view, from, to, blockSize, longest);
  while (window.advance()) {
    const { block, finder, start: low, cutTerminated } = window;
    const shift = window.offset - low;
    for (let stop = window.end; stop > low; ) {
      const terminated = block[stop - 1] === LINE_FEED;
      const end = terminated ? stop - 1 : stop;
      const start = end > low ? Math.max(low, finder.lastIndexOf(LINE_FEED, end - 1) + 1) : low;
      const first = start + shift === 0 ? contentStart(block, start, end) : start;
      const last = contentEnd(block, first, end);
      if (visit(block, first, last, start + shift, terminated || cutTerminated) === false) return;
      stop = start;
    }
  }
}
