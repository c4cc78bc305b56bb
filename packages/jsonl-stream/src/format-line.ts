import { checkJson, LINE_LIMITS, type LineLimits, lineTooLong } from "./check-json.ts";

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
  const text = wellFormed(JSON.stringify(value));
  // A UTF-16 unit takes at most three bytes: most lines need not be measured.
  if (text.length > bytes || (text.length * 3 > bytes && encoder.encode(text).length > bytes)) {
    throw lineTooLong(bytes);
  }
  return text;
}

/**
 * `JSON.stringify` writes lone surrogates, and nothing else, as escapes that begin with `\ud`. Text of the value can
 * look the same after an escaped backslash, so those are matched first.
 */
function wellFormed(text: string): string {
  if (!text.includes("\\ud")) return text;
  const healed = text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) =>
    match === "\\\\" ? match : "\ufffd",
  );
  // Keys that differed in their surrogates only are the same now: parsing keeps the last one.
  return healed === text ? text : JSON.stringify(JSON.parse(healed));
}
