import { contentEnd } from "./line-content.ts";
import { parseLine } from "./parse-line.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** A whole value found at the end of a bad line. */
export interface Salvaged {
  /** Where it begins in the bytes of the line. */
  start: number;
  value: unknown;
}

/**
 * Saves the line that was glued to a torn one: the suffix that begins with `marker` and parses to the line's end.
 *
 * Linear: read from the end, brackets and quotes of a JSON value leave only one place where it can begin, so
 * there is one attempt to parse, whatever the line holds.
 */
export function salvageLine(bytes: Uint8Array, marker = '{"type":'): Salvaged | undefined {
  const start = startOfLastValue(bytes, contentEnd(bytes, 0, bytes.length));
  if (start < 0 || !startsWith(bytes, start, marker)) return undefined;
  const parsed = parseLine(bytes.subarray(start));
  return parsed.ok ? { start, value: parsed.value } : undefined;
}

/** Where the object or array that ends at `end` begins, if it is one; -1 otherwise. */
function startOfLastValue(bytes: Uint8Array, end: number): number {
  let depth = 0;
  let inString = false;
  for (let at = end - 1; at >= 0; at -= 1) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      let slashes = at;
      while (slashes > 0 && bytes[slashes - 1] === BACKSLASH) slashes -= 1;
      // An odd number of backslashes escapes the quote: it stands inside a string.
      if ((at - slashes) % 2 === 0) inString = !inString;
      at = slashes;
    } else if (inString) {
    } else if (byte === 0x7d || byte === 0x5d) {
      depth += 1;
    } else if (byte === 0x7b || byte === 0x5b) {
      depth -= 1;
      if (depth <= 0) return depth === 0 ? at : -1;
    } else if (depth === 0 && byte > 0x20) {
      return -1;
    }
  }
  return -1;
}

function startsWith(bytes: Uint8Array, start: number, marker: string): boolean {
  const wanted = new TextEncoder().encode(marker);
  return wanted.every((byte, index) => bytes[start + index] === byte);
}
