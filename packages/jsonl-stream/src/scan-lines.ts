import { BackwardWindow } from "./backward-window.ts";
import type { ByteView } from "./byte-view.ts";
import type { ForwardOptions } from "./for-each-line.ts";
import type { BackwardOptions } from "./for-each-line-backward.ts";
import { ForwardWindow } from "./forward-window.ts";
import { contentEnd, contentStart } from "./line-content.ts";
import { windowRange } from "./line-window.ts";

/** One line of a view. */
export interface Line {
  /** Where the line as stored begins in the view. */
  offset: number;
  /**
   * Bytes of the line as stored, with BOM and CR, without its newline: `view.read(offset, length)` gives them again.
   * At most `longest`.
   */
  length: number;
  /** The content, without BOM and CR. Valid until the next line is asked for: copy what is to be kept. */
  bytes: Uint8Array;
  /** False for a last line without newline. */
  terminated: boolean;
}

/** A line and its number, from 1 for a scan from the beginning. */
export interface NumberedLine extends Line {
  /** Counts blank lines too. */
  lineNumber: number;
}

/** The lines of a view in order, blank ones too: `forEachLine` with an object a line. */
export function* scanLines(view: ByteView, options: ForwardOptions = {}): Generator<NumberedLine, void> {
  const window = new ForwardWindow(view, windowRange(view, options.from, options.to, options));
  let { lineNumber = 1 } = options;
  while (window.advance()) {
    for (let start = 0; start < window.end; lineNumber += 1) {
      const stop = window.lineStop(start);
      const line = lineAt(window.block, start, stop, window.offset + start, window.isTerminated(stop));
      yield { ...line, lineNumber };
      start = stop + 1;
    }
  }
}

/** The lines of a view from the last to the first, blank ones too: `forEachLineBackward` with an object a line. */
export function* scanLinesBackward(view: ByteView, options: BackwardOptions = {}): Generator<Line, void> {
  const window = new BackwardWindow(view, windowRange(view, options.to, options.from, options));
  while (window.advance()) {
    const { start: low, offset } = window;
    for (let stop = window.end; stop > low; ) {
      const end = window.lineEnd(stop);
      const start = window.lineStart(end);
      yield lineAt(window.block, start, end, offset + start - low, window.isTerminated(end));
      stop = start;
    }
  }
}

function lineAt(block: Uint8Array, start: number, stop: number, offset: number, terminated: boolean): Line {
  const first = offset === 0 ? contentStart(block, start, stop) : start;
  const bytes = block.subarray(first, contentEnd(block, first, stop));
  return { offset, length: stop - start, bytes, terminated };
}
