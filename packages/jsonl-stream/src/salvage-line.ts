import { parseLine } from "./parse-line.ts";
import { isSpace } from "./skip-value.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Bytes below this stand in no string, and outside of one only where they are white space. */
const SPACE = 0x20;

/** A whole value found at the end of a bad line. */
export interface Salvaged {
  /** Where it begins in the bytes of the line. */
  start: number;
  value: unknown;
}

/**
 * Saves the line that was glued to a torn one: the suffix that begins with `marker` and parses to the line's end.
 *
 * Linear, with one attempt to parse, whatever the line holds: read from the end, the quotes and brackets of a JSON
 * object or array leave only one place where it can begin.
 */
export function salvageLine(bytes: Uint8Array, marker = '{"type":'): Salvaged | undefined {
  const start = startOfLastValue(bytes);
  if (start < 0 || !startsWith(bytes, start, marker)) return undefined;
  const parsed = parseLine(bytes.subarray(start));
  return parsed.ok ? { start, value: parsed.value } : undefined;
}

/** Where the object or array that ends the bytes begins, if they end in one; -1 when they cannot. */
function startOfLastValue(bytes: Uint8Array): number {
  let depth = 0;
  let inString = false;
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      const slashes = backslashesBefore(bytes, at);
      // A quote after an odd number of them is escaped: it stands inside a string.
      if (slashes % 2 === 0) inString = !inString;
      at -= slashes;
    } else if (!inString) {
      if (isClosing(byte)) depth += 1;
      else if (depth === 0 && !isSpace(byte)) return -1;
      else if (isOpening(byte)) depth -= 1;
      if (depth === 0 && !isSpace(byte)) return at;
    }
    if (depth === 0 && inString) return -1;
    // What a power cut leaves are NUL bytes, and it may leave many.
    if (byte < SPACE && !isSpace(byte)) return -1;
  }
  return -1;
}

const isClosing = (byte: number): boolean => byte === 0x7d || byte === 0x5d;
const isOpening = (byte: number): boolean => byte === 0x7b || byte === 0x5b;

function backslashesBefore(bytes: Uint8Array, at: number): number {
  let start = at;
  while (start > 0 && bytes[start - 1] === BACKSLASH) start -= 1;
  return at - start;
}

function startsWith(bytes: Uint8Array, start: number, marker: string): boolean {
  return new TextEncoder().encode(marker).every((byte, index) => bytes[start + index] === byte);
}
