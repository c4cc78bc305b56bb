import { JsonlError } from "./jsonl-error.ts";

const encoder = new TextEncoder();
const LINE_FEED = 10;

/**
 * Lines as bytes, a newline after each; nothing for no lines.
 *
 * @throws JsonlError `not-json` when a line holds a newline: it would be read as two
 */
export function encodeLines(lines: readonly string[]): Uint8Array {
  lines.forEach(assertOneLine);
  const buffer = globalThis.Buffer;
  return buffer === undefined
    ? encoder.encode(lines.map((line) => `${line}\n`).join(""))
    : encodeWithBuffer(lines, buffer);
}

/** Measured and written in place: putting the newlines behind the text first would copy it, and costs ten times as much. */
function encodeWithBuffer(lines: readonly string[], buffer: typeof Buffer): Uint8Array {
  let length = lines.length;
  for (const line of lines) length += buffer.byteLength(line);
  const bytes = buffer.allocUnsafe(length);
  let end = 0;
  for (const line of lines) {
    end += bytes.write(line, end);
    bytes[end++] = LINE_FEED;
  }
  // A plain array: what a Buffer calls a slice is no copy.
  return new Uint8Array(bytes.buffer, bytes.byteOffset, length);
}

/** Throws `not-json` where a line holds a newline. */
export function assertOneLine(line: string): void {
  if (line.includes("\n"))
    throw new JsonlError("not-json", "A line holds a newline; write JSON text without indentation.");
}
