import { JsonlError } from "./jsonl-error.ts";

const encoder = new TextEncoder();

/**
 * Lines as bytes, a newline after each; nothing for no lines.
 *
 * @throws JsonlError `not-json` when a line holds a newline: it would be read as two
 */
export function encodeLines(lines: readonly string[]): Uint8Array {
  let text = "";
  for (const line of lines) {
    if (line.includes("\n")) {
      throw new JsonlError("not-json", "A line holds a newline; write JSON text without indentation.");
    }
    text += `${line}\n`;
  }
  return encoder.encode(text);
}
