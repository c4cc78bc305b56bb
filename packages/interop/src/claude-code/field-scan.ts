const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/**
 * Finds where some fields of a JSON object stand in its bytes, without decoding or parsing it: enough to know where a
 * line belongs, at a fraction of what parsing costs. It looks at the structure alone, so a line that passes may still
 * not be JSON; who parses it later will see.
 *
 * The scan of `session-tree` is beside it, not below: that one knows three keys of the format, takes nothing but plain
 * texts for them, and skips long texts by a native search, which is slower on lines like these.
 */
export class FieldScan {
  /** Where the value of each wanted field begins, quotes included; -1 for a field that is not there. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  readonly #keys: readonly Uint8Array[];
  readonly #mayStop: boolean;
  #bytes: Uint8Array = new Uint8Array();

  /** @param mayStop whether the rest of the object may be skipped once all fields are found */
  constructor(keys: readonly string[], { mayStop = false } = {}) {
    this.#keys = keys.map((key) => new TextEncoder().encode(key));
    this.#mayStop = mayStop;
    this.starts = new Int32Array(keys.length);
    this.ends = new Int32Array(keys.length);
  }

  /** False means "not sure": parse it. (Escapes in keys, a key that comes twice, anything that is no single object.) */
  scan(bytes: Uint8Array, start: number, end: number): boolean {
    this.#bytes = bytes;
    this.starts.fill(-1);
    let missing = this.#keys.length;
    let at = skipSpace(bytes, start, end);
    if (bytes[at] !== OPEN_BRACE) return false;
    at = skipSpace(bytes, at + 1, end);
    if (bytes[at] === CLOSE_BRACE) return skipSpace(bytes, at + 1, end) === end;
    for (;;) {
      if (bytes[at] !== QUOTE) return false;
      const keyStart = at + 1;
      for (at = keyStart; bytes[at] !== QUOTE; at++) if (at >= end || bytes[at] === BACKSLASH) return false;
      const key = this.#keyAt(keyStart, at);
      at = skipSpace(bytes, at + 1, end);
      if (bytes[at] !== COLON) return false;
      at = skipSpace(bytes, at + 1, end);
      const valueStart = at;
      at = skipValue(bytes, at, end);
      if (at < 0) return false;
      if (key >= 0) {
        if (this.starts[key]! >= 0) return false;
        this.starts[key] = valueStart;
        this.ends[key] = at;
        if (--missing === 0 && this.#mayStop) return true;
      }
      at = skipSpace(bytes, at, end);
      if (bytes[at] === CLOSE_BRACE) return skipSpace(bytes, at + 1, end) === end;
      if (bytes[at] !== COMMA) return false;
      at = skipSpace(bytes, at + 1, end);
    }
  }

  /** True for a field whose value is the literal `true`. */
  isTrue(key: number): boolean {
    return this.ends[key]! - this.starts[key]! === 4 && this.#bytes[this.starts[key]!] === 116;
  }

  /** True for a text of plain ASCII without escapes, so that its bytes are what it says. */
  isPlainText(key: number): boolean {
    const start = this.starts[key]!;
    if (start < 0 || this.#bytes[start] !== QUOTE) return false;
    for (let at = start + 1; at < this.ends[key]! - 1; at++) {
      const byte = this.#bytes[at]!;
      if (byte === BACKSLASH || byte > 126 || byte < 32) return false;
    }
    return true;
  }

  /** What a plain text says. */
  text(key: number): string {
    return asciiText(this.#bytes, this.starts[key]! + 1, this.ends[key]! - 1);
  }

  /** The bytes of a plain text, good until the block changes. */
  textBytes(key: number): Uint8Array {
    return this.#bytes.subarray(this.starts[key]! + 1, this.ends[key]! - 1);
  }

  /** True for a field that is there and not null. */
  isGiven(key: number): boolean {
    return this.starts[key]! >= 0 && this.#bytes[this.starts[key]!] !== 110;
  }

  #keyAt(start: number, end: number): number {
    for (let key = 0; key < this.#keys.length; key++) {
      const wanted = this.#keys[key]!;
      if (wanted.length !== end - start) continue;
      let same = 0;
      while (same < wanted.length && wanted[same] === this.#bytes[start + same]) same++;
      if (same === wanted.length) return key;
    }
    return -1;
  }
}

/** Shorter texts are put together faster than a decoder is called. */
const SHORT = 48;

const decoder = new TextDecoder();

function asciiText(bytes: Uint8Array, start: number, end: number): string {
  if (end - start > SHORT) return decoder.decode(bytes.subarray(start, end));
  let text = "";
  for (let at = start; at < end; at++) text += String.fromCharCode(bytes[at]!);
  return text;
}

function skipSpace(bytes: Uint8Array, at: number, end: number): number {
  while (at < end) {
    const byte = bytes[at];
    if (byte !== 32 && byte !== 9 && byte !== 13 && byte !== 10) break;
    at++;
  }
  return at;
}

/** The position behind the value that begins at `at`; -1 when it does not end before `end`. */
function skipValue(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at];
  if (first === QUOTE) return skipText(bytes, at, end);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return skipNested(bytes, at, end);
  const start = at;
  while (at < end && isLiteral(bytes[at]!)) at++;
  return at > start && at < end ? at : -1;
}

/** Byte by byte: what agents keep is full of quotes, and a native search that ends after ten bytes costs more. */
function skipText(bytes: Uint8Array, start: number, end: number): number {
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) at++;
  }
  return -1;
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

/** Letters, digits and signs: what `true`, `null` and numbers are made of. */
function isLiteral(byte: number): boolean {
  return (
    (byte >= 48 && byte <= 57) ||
    (byte >= 97 && byte <= 122) ||
    byte === 43 ||
    byte === 45 ||
    byte === 46 ||
    byte === 69
  );
}
