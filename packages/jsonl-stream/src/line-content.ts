const CARRIAGE_RETURN = 13;

/** Where the content of a line begins: after a byte order mark, if one stands there. */
export function contentStart(bytes: Uint8Array, start: number, end: number): number {
  const marked =
    end - start >= 3 && bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf;
  return marked ? start + 3 : start;
}

/** Where the content of a line ends: before one CR, if one stands there. */
export function contentEnd(bytes: Uint8Array, start: number, end: number): number {
  return end > start && bytes[end - 1] === CARRIAGE_RETURN ? end - 1 : end;
}
