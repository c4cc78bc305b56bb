import { BackwardWindow } from "./backward-window.ts";
import type { ByteView } from "./byte-view.ts";
import { contentEnd, contentStart } from "./line-content.ts";
import { type ScanOptions, windowRange } from "./line-window.ts";

/** Which lines to walk backward. */
export interface BackwardOptions extends ScanOptions {
  /** Byte offset to begin at: the end of a line, its newline included. Default: the view's size. */
  from?: number;
  /** Byte offset to end at, the first byte of a line. Default 0. */
  to?: number;
}

/** Told of one line as a {@link LineVisitor} is; the number of a line is not known from this side. */
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
 * Whoever stops early has read at most a block more than the lines visited.
 *
 * @throws JsonlError `shrunk` when the view ends before its size
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
