const QUOTE = 34;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** How far a text is walked byte by byte before its end is searched for: a search that ends soon costs more than a walk. */
const NEAR = 48;

/** True for what JSON takes for space: blank, tab, and the two that end lines. */
export function isSpace(byte: number): boolean {
  return byte === 32 || byte === 9 || byte === 13 || byte === 10;
}

/** The position of the first byte from `at` on that is no space; `end` when there is none. */
export function skipSpace(bytes: Uint8Array, at: number, end: number): number {
  while (at < end && isSpace(bytes[at]!)) at++;
  return at;
}

/**
 * The position behind the JSON value that begins at `at`; -1 when it does not end before `end`. It looks at the structure
 * alone, without decoding: what it passes over may still not be JSON.
 */
export function skipValue(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at];
  if (first === QUOTE) return skipText(bytes, at, end);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return skipNested(bytes, at, end);
  while (at < end && isScalar(bytes[at]!)) at++;
  return at < end ? at : -1;
}

/** What numbers and the three words are made of: letters, digits, `+`, `-` and `.`. */
function isScalar(byte: number): boolean {
  return (
    (byte >= 97 && byte <= 122) ||
    (byte >= 48 && byte <= 57) ||
    byte === 45 ||
    byte === 46 ||
    byte === 43 ||
    (byte >= 65 && byte <= 90)
  );
}

/** Long texts are searched for their end, texts full of quotes are walked. */
function skipText(bytes: Uint8Array, start: number, end: number): number {
  for (let at = start + 1; ; ) {
    for (const near = Math.min(end, at + NEAR); at < near; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) return at + 1;
      if (byte === BACKSLASH) at++;
    }
    if (at >= end) return -1;
    const quote = bytes.indexOf(QUOTE, at);
    if (quote < 0 || quote >= end) return -1;
    let slashes = 0;
    while (quote - slashes > at && bytes[quote - 1 - slashes] === BACKSLASH) slashes++;
    at = quote + 1;
    if (slashes % 2 === 0) return at;
  }
}

/** Skips an object or list by counting brackets outside texts; no recursion, so depth costs nothing. */
function skipNested(bytes: Uint8Array, at: number, end: number): number {
  let depth = 0;
  for (; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      const after = skipText(bytes, at, end);
      if (after < 0) return -1;
      at = after - 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return at + 1;
  }
  return -1;
}
