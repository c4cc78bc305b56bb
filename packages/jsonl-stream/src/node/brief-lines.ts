import { assertOneLine, encodeLines } from "../encode-lines.ts";
import { LINE_FEED } from "../line-window.ts";

/** Written into at each append: memory of its own for each line would cost more than the encoding. */
const scratch = Buffer.allocUnsafeSlow(1 << 18);

/**
 * As `encodeLines`, for lines that are written at once: the bytes stand in memory that the next call uses again.
 *
 * @throws JsonlError `not-json` when a line holds a newline
 */
export function encodeBriefly(lines: readonly string[]): Uint8Array {
  let most = lines.length;
  // A UTF-16 unit takes at most three bytes: what may not fit is rare, and need not be measured.
  for (const line of lines) most += line.length * 3;
  if (most > scratch.length) return encodeLines(lines);
  let end = 0;
  for (const line of lines) {
    assertOneLine(line);
    end += scratch.write(line, end);
    scratch[end++] = LINE_FEED;
  }
  // A plain array: what a Buffer calls a slice is no copy.
  return new Uint8Array(scratch.buffer, 0, end);
}
