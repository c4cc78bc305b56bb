import { skipSpace, skipValue } from "@espalier/jsonl-stream";

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/**
 * Finds where some fields of a JSON object stand in its bytes, without decoding or parsing it: enough to know where a
 * line belongs, at a fraction of what parsing costs. It looks at the structure alone, so a line that passes may still
 * not be JSON; who parses it later will see.
 *
 * That of `session-tree` beside it knows three keys of the format, takes nothing but plain texts for them, and stops there.
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
