import { decodeText } from "./decode-text.ts";
import { contentStart } from "./line-content.ts";

/** Why a line is no JSON value. Says nothing of what the line holds. */
export interface LineProblem {
  /**
   * - `blank`: empty, or spaces and tabs only
   * - `nul-bytes`: NUL bytes, which a power cut leaves where data was not yet on disk
   * - `invalid-utf8`, `invalid-json`
   * - `too-long`: more bytes than a string can have characters ({@link LONGEST_PARSED})
   */
  kind: "blank" | "invalid-utf8" | "invalid-json" | "nul-bytes" | "too-long";
  message: string;
  /** Bytes of the line. */
  length: number;
}

/** A line's value, or why it has none. */
export type ParsedLine = { ok: true; value: unknown } | { ok: false; problem: LineProblem };

/** V8's longest string, in characters; no line of more bytes is decoded. */
export const LONGEST_PARSED = 0x1fffffe8;

const MESSAGES: Record<LineProblem["kind"], string> = {
  blank: "The line is blank.",
  "nul-bytes": "The line holds NUL bytes, as a power cut leaves them.",
  "invalid-utf8": "The line is not valid UTF-8.",
  "invalid-json": "The line is not valid JSON.",
  "too-long": `The line is longer than ${LONGEST_PARSED} bytes, the longest text that can be parsed.`,
};

/** The JSON value of one line, given as bytes with or without BOM, CR and newline. Expected trouble is data. */
export function parseLine(bytes: Uint8Array): ParsedLine {
  if (bytes.length === 0) return problem("blank", bytes);
  if (bytes.length > LONGEST_PARSED) return problem("too-long", bytes);
  const start = contentStart(bytes, 0, bytes.length);
  const text = decodeText(start === 0 ? bytes : bytes.subarray(start));
  if (text === undefined) return problem(bytes.includes(0) ? "nul-bytes" : "invalid-utf8", bytes);
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    // The parser's message quotes the line.
    if (/^[ \t\r\n]*$/.test(text)) return problem("blank", bytes);
    return problem(bytes.includes(0) ? "nul-bytes" : "invalid-json", bytes);
  }
}

function problem(kind: LineProblem["kind"], { length }: Uint8Array): ParsedLine {
  return { ok: false, problem: { kind, message: MESSAGES[kind], length } };
}
