import { BackwardWindow } from "./backward-window.ts";
import type { ByteView } from "./byte-view.ts";
import type { ForwardOptions } from "./for-each-line.ts";
import type { BackwardOptions } from "./for-each-line-backward.ts";
import { ForwardWindow } from "./forward-window.ts";
import { contentEnd, contentStart } from "./line-content.ts";
import { BLOCK_SIZE, LINE_FEED, LONGEST_VISITED } from "./line-window.ts";

/** One line of a view. */
export interface Line {
  /** Where the line as stored begins in the view. */
  offset: number;
  /** Bytes of the line as stored, BOM and CR included, without its newline: `view.read(offset, length)`. */
  length: number;
  /** The content, without BOM, CR and newline. Valid until the next line is asked for: copy what is to be kept. */
  bytes: Uint8Array;
  /** False for a last line without newline. */
  terminated: boolean;
}

export interface NumberedLine extends Line {
  /** Counts blank lines too. */
  lineNumber: number;
}

/** The lines of a view in order, blank ones too. {@link forEachLine} is the same without an object a line. */
export function* scanLines(
  view: ByteView,
  options: ForwardOptions = {},
): Generator<NumberedLine, void, undefined> {
  const { from = 0, to = view.size, blockSize = BLOCK_SIZE, longest = LONGEST_VISITED } = options;
  let { lineNumber = 1 } = options;
  const window = new ForwardWindow(view, from, to, blockSize, longest);
  while (window.advance()) {
    const { block, finder, end, cutTerminated } = window;
    for (let start = 0; start < end; ) {
      const found = finder.indexOf(LINE_FEED, start);
      const terminated = found >= 0 && found < end;
      const stop = terminated ? found : end;
      const line = lineAt(block, start, stop, window.offset + start, terminated || cutTerminated);
      yield { ...line, lineNumber };
      lineNumber += 1;
      start = stop + 1;
    }
  }
}

/** The lines of a view from the last to the first, blank ones too. */
export function* scanLinesBackward(
  view: ByteView,
  options: BackwardOptions = {},
): Generator<Line, void, undefined> {
  const { from = view.size, to = 0, blockSize = BLOCK_SIZE, longest = LONGEST_VISITED } = options;
  const window = new BackwardWindow(view, from, to, blockSize, longest);
  while (window.advance()) {
    const { block, finder, start: low, cutTerminated } = window;
    const shift = window.offset - low;
    for (let stop = window.end; stop > low; ) {
      const terminated = block[stop - 1] === LINE_FEED;
      const end = terminated ? stop - 1 : stop;
      const start = end > low ? Math.max(low, finder.lastIndexOf(LINE_FEED, end - 1) + 1) : low;
      yield lineAt(block, start, end, start + shift, terminated || cutTerminated);
      stop = start;
    }
  }
}

function lineAt(block: Uint8Array, start: number, end: number, offset: number, terminated: boolean): Line {
  const first = offset === 0 ? contentStart(block, start, end) : start;
  const bytes = block.subarray(first, contentEnd(block, first, end));
  return { offset, length: end - start, bytes, terminated };
}
