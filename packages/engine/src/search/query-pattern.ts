/**
 * What a query looks like in decoded text. Letters of ASCII match in any case; everything else is literal.
 */
export function textPattern(query: string, isCaseSensitive: boolean): RegExp {
  const source = Array.from(query, (letter) => (isCaseSensitive ? literal(letter) : anyCase(letter)));
  return new RegExp(source.join(""), "g");
}

/**
 * What a query can look like in the bytes of a JSON line, one byte a character (latin-1): letters that JSON escapes,
 * or that some writers do, in each of their forms. It finds more than is meant (case beyond ASCII), never less, but
 * for writers that escape letters and digits of ASCII.
 */
export function linePattern(query: string, isCaseSensitive: boolean): RegExp {
  return new RegExp(Array.from(query, inLine).join(""), isCaseSensitive ? "g" : "gi");
}

/** The most bytes that one UTF-16 unit of a query takes in a line: `\u00e9`. */
export const WIDEST_UNIT = 6;

const anyCase = (letter: string): string =>
  /[a-z]/i.test(letter) ? `[${letter.toLowerCase()}${letter.toUpperCase()}]` : literal(letter);

const literal = (letter: string): string => letter.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");

/** Letters that may stand escaped by a backslash, and how they then do. */
const SHORT_ESCAPES: Record<string, string> = {
  '"': '\\\\?"',
  "\\": "\\\\\\\\",
  "/": "\\\\?/",
  "\n": "\\\\n",
  "\r": "\\\\r",
  "\t": "\\\\t",
  "\b": "\\\\b",
  "\f": "\\\\f",
};

/** What writers of JSON for web pages escape too. */
const ESCAPED_BY_SOME = /["\\/<>&'\p{Cc}]|[^\p{ASCII}]/u;

function inLine(letter: string): string {
  if (!ESCAPED_BY_SOME.test(letter)) return literal(letter);
  return `(?:${SHORT_ESCAPES[letter] ?? inBytes(letter)}|${escapedUnits(letter)})`;
}

/** The UTF-8 bytes of a letter, as the characters that latin-1 makes of them. */
const inBytes = (letter: string): string =>
  Array.from(new TextEncoder().encode(letter), (byte) => `\\x${hex(byte, 2)}`).join("");

/** `\uXXXX` for each UTF-16 unit, with hexadecimal digits in any case. */
const escapedUnits = (letter: string): string =>
  Array.from({ length: letter.length }, (_, at) => {
    const digits = Array.from(hex(letter.charCodeAt(at), 4), anyCase).join("");
    return `\\\\u${digits}`;
  }).join("");

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, "0");
