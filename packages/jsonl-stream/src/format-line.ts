import { checkJson, LINE_LIMITS, type LineLimits, lineTooLong } from "./check-json.ts";
import { wellFormedJson } from "./well-formed-json.ts";

const encoder = new TextEncoder();

/**
 * The JSON text of one line, without newline: what {@link checkJson} lets through, in well-formed Unicode (a lone
 * surrogate in a string or a key becomes U+FFFD). Parsing the text and formatting that gives the same text.
 *
 * @throws JsonlError `not-json`, `too-deep` (both name the key path), `line-too-long`
 */
export function formatLine(value: unknown, limits: LineLimits = {}): string {
  const { bytes = LINE_LIMITS.bytes } = limits;
  checkJson(value, limits);
  const text = wellFormedJson(JSON.stringify(value));
  // A UTF-16 unit takes at most three bytes: most lines need not be measured.
  if (text.length > bytes || (text.length * 3 > bytes && encoder.encode(text).length > bytes)) {
    throw lineTooLong(bytes);
  }
  return text;
}
