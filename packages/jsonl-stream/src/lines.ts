import { EspalierError } from "./error.ts";

/**
 * Returns JSON text as `JSON.stringify` writes it; an empty text for a value without JSON (undefined, a function). Also
 * writes a value that is nested too deeply for `JSON.stringify`, on one line whatever `space` is, so that every value
 * that was read can be printed. Throws a `TypeError` for a cycle or a bigint.
 *
 * @param space spaces per level of indentation; without it, the text is one line
 */
export function jsonText(value: unknown, space?: number): string {
  try {
    return JSON.stringify(value, null, space) ?? "";
  } catch (error) {
    // The engine's stack overflows at a depth of about 4,000.
    if (!(error instanceof RangeError)) throw error;
    return deepJsonText(value);
  }
}

/**
 * Yields the JSON text of an object or a list in pieces. An iterable field (other than a string) is written as a list,
 * element by element, so that a long list is never in memory. Undefined fields are left out; undefined elements become
 * null.
 *
 * @param line "\n" for a line for each field and each element; empty for all on one line
 * @param text JSON text of a field or an element; default: {@link jsonText}
 */
export function* jsonPieces(
  value: object,
  line: string,
  text: (value: unknown) => string = jsonText,
): Generator<string> {
  const [open, close] = isIterable(value) ? ["[", "]"] : ["{", "}"];
  let separator = open + line;
  if (isIterable(value))
    for (const element of value) {
      yield separator + text(element ?? null);
      separator = `,${line}`;
    }
  else
    for (const [name, field] of Object.entries(value)) {
      if (field === undefined) continue;
      yield `${separator}${JSON.stringify(name)}:${line && " "}`;
      separator = `,${line}`;
      if (isIterable(field)) yield* jsonPieces(field, line, text);
      else yield text(field);
    }
  yield separator.startsWith(",") ? line + close : open + close;
}

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.iterator in value;

/** An array or object that is being written. */
interface OpenValue {
  value: Readonly<Record<string, unknown>>;
  keys: readonly string[];
  at: number;
  isArray: boolean;
}

/** Returns JSON text without recursion, for values that a parser returned. */
function deepJsonText(whole: unknown): string {
  let text = "";
  const open: OpenValue[] = [];
  const write = (value: unknown) => {
    if (typeof value !== "object" || value === null) {
      text += JSON.stringify(value) ?? "null";
      return;
    }
    const isArray = Array.isArray(value);
    const fields = value as Record<string, unknown>;
    const keys = Object.keys(fields).filter((key) => isArray || fields[key] !== undefined);
    text += isArray ? "[" : "{";
    open.push({ value: fields, keys, at: 0, isArray });
  };
  write(whole);
  for (let last = open.at(-1); last; last = open.at(-1)) {
    const key = last.keys[last.at];
    if (key === undefined) {
      text += last.isArray ? "]" : "}";
      open.pop();
      continue;
    }
    if (last.at++ > 0) text += ",";
    if (!last.isArray) text += `${JSON.stringify(key)}:`;
    write(last.value[key]);
  }
  return text;
}

/** Reason why a line is not a JSON value. Never quotes the line. */
export interface LineProblem {
  /**
   * Kind of problem:
   *
   * - `blank`: empty, or only white space, maybe after a BOM
   * - `nul-bytes`: no JSON, with NUL bytes, which a power failure leaves in place of data that was not on disk yet
   * - `invalid-utf8`, `invalid-json`: any other bytes that are not UTF-8, and any other text that is not JSON
   * - `too-long`: more bytes than a string can have characters ({@link LONGEST_PARSED})
   */
  kind: "blank" | "invalid-utf8" | "invalid-json" | "nul-bytes" | "too-long";
  /** One sentence for people. */
  message: string;
}

/** Value of a line, or the reason why it has none. */
export type ParsedLine = { ok: true; value: unknown } | { ok: false; problem: LineProblem };

/** Maximum length of a string in V8, in characters. Lines with more bytes are not decoded. */
export const LONGEST_PARSED = 0x1fffffe8;

const MESSAGES: Record<LineProblem["kind"], string> = {
  blank: "The line is blank.",
  "nul-bytes": "The line has NUL bytes, as after a power loss.",
  "invalid-utf8": "The line is not valid UTF-8.",
  "invalid-json": "The line is not valid JSON.",
  "too-long": `The line is longer than ${LONGEST_PARSED} bytes, the longest text that can be parsed.`,
};

/** Returns the JSON value of one line, or its problem. `bytes` can include a BOM, a CR and the newline. Does not throw. */
export function parseLine(bytes: Uint8Array): ParsedLine {
  if (bytes.length === 0) return problem("blank");
  if (bytes.length > LONGEST_PARSED) return problem("too-long");
  const start = contentStart(bytes, 0, bytes.length);
  const text = decodeText(start === 0 ? bytes : bytes.subarray(start));
  if (text === undefined) return problem(bytes.includes(0) ? "nul-bytes" : "invalid-utf8");
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    // The parser's own message is not used, because it quotes the line.
    if (/^[ \t\r\n]*$/.test(text)) return problem("blank");
    return problem(bytes.includes(0) ? "nul-bytes" : "invalid-json");
  }
}

const problem = (kind: LineProblem["kind"]): ParsedLine => ({
  ok: false,
  problem: { kind, message: MESSAGES[kind] },
});

const CARRIAGE_RETURN = 13;

/** Returns the beginning of a line's content: after a byte order mark, if there is one. */
export function contentStart(bytes: Uint8Array, start: number, end: number): number {
  const marked =
    end - start >= 3 && bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf;
  return marked ? start + 3 : start;
}

/** Returns the end of a line's content: before one CR, if there is one. */
export function contentEnd(bytes: Uint8Array, start: number, end: number): number {
  return end > start && bytes[end - 1] === CARRIAGE_RETURN ? end - 1 : end;
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Character that replaces each invalid byte sequence. A valid text can contain it too. */
const REPLACEMENT = "\ufffd";

/**
 * Returns the text of UTF-8 bytes, including a byte order mark; undefined when they are not valid UTF-8. Node's Buffer
 * is faster than a decoder for a short text, but replaces invalid bytes. So the strict decoder is used only when the
 * text contains {@link REPLACEMENT}.
 */
function decodeText(bytes: Uint8Array): string | undefined {
  const buffer = globalThis.Buffer;
  if (buffer !== undefined) {
    const text = buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
    if (!text.includes(REPLACEMENT)) return text;
  }
  try {
    return decoder.decode(bytes);
  } catch {
    // The decoder's error has no more information.
    return undefined;
  }
}

const QUOTE = 34;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** Bytes below this value cannot be in a string. Outside of strings, only white space is below it. */
const SPACE = 0x20;

/** A whole value at the end of a bad line. */
export interface Salvaged {
  /** Offset of the value's first byte in the line. */
  start: number;
  value: unknown;
}

/**
 * Returns the whole object or array at the end of a line, after a torn value. Undefined when there is none, when it
 * does not begin with `marker`, or when it is not JSON.
 *
 * Linear, with one attempt to parse, for any content of the line: read from the end, the quotes and brackets of a JSON
 * object or array determine the only possible beginning.
 */
export function salvageLine(bytes: Uint8Array, marker: string): Salvaged | undefined {
  const start = startOfLastValue(bytes);
  if (start < 0 || !startsWith(bytes, start, marker)) return undefined;
  const parsed = parseLine(bytes.subarray(start));
  return parsed.ok ? { start, value: parsed.value } : undefined;
}

/** Returns the beginning of the object or array at the end of the bytes; -1 when there is none. */
function startOfLastValue(bytes: Uint8Array): number {
  let depth = 0;
  let inString = false;
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      const slashes = backslashesBefore(bytes, at);
      // A quote after an odd number of backslashes is escaped, and so inside a string.
      if (slashes % 2 === 0) inString = !inString;
      at -= slashes;
    } else if (!inString) {
      if (isClosing(byte)) depth += 1;
      else if (depth === 0 && !isSpace(byte)) return -1;
      else if (isOpening(byte)) depth -= 1;
      if (depth === 0 && !isSpace(byte)) return at;
    }
    if (depth === 0 && inString) return -1;
    // A power failure can leave many NUL bytes.
    if (byte < SPACE && !isSpace(byte)) return -1;
  }
  return -1;
}

const isClosing = (byte: number): boolean => byte === CLOSE_BRACE || byte === CLOSE_BRACKET;
const isOpening = (byte: number): boolean => byte === OPEN_BRACE || byte === OPEN_BRACKET;

function backslashesBefore(bytes: Uint8Array, at: number): number {
  let start = at;
  while (start > 0 && bytes[start - 1] === BACKSLASH) start -= 1;
  return at - start;
}

function startsWith(bytes: Uint8Array, start: number, marker: string): boolean {
  return new TextEncoder().encode(marker).every((byte, index) => bytes[start + index] === byte);
}

/** Bytes of a text that are read one by one before a native search for its end: for short texts, a search costs more. */
const NEAR = 48;

/** Returns whether a byte is JSON white space: space, tab, CR or newline. */
export function isSpace(byte: number): boolean {
  return byte === 32 || byte === 9 || byte === 13 || byte === 10;
}

/** Returns the position of the first byte at or after `at` that is not white space; `end` when there is none. */
export function skipSpace(bytes: Uint8Array, at: number, end: number): number {
  while (at < end && isSpace(bytes[at]!)) at++;
  return at;
}

/**
 * Returns the position after the JSON value that begins at `at`; -1 when it does not end before `end`. Checks only
 * quotes and brackets, without decoding, so the skipped bytes may not be valid JSON.
 */
export function skipValue(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at];
  if (first === QUOTE) return skipText(bytes, at, end);
  if (isOpening(first!)) return skipNested(bytes, at, end);
  while (at < end && SCALAR[bytes[at]!] === 1) at++;
  return at < end ? at : -1;
}

/** 1 for bytes of numbers and of `true`, `false` and `null`. */
const SCALAR = Uint8Array.from({ length: 256 }, (_, byte) =>
  /[a-zA-Z0-9+.-]/.test(String.fromCharCode(byte)) ? 1 : 0,
);

/**
 * Skips a text. Reads the first bytes one by one, which is fast for texts with many quotes, then searches for the end,
 * which is fast for long texts.
 */
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

/** Skips an object or list by counting brackets outside texts. Does not recurse, so any depth works. */
function skipNested(bytes: Uint8Array, at: number, end: number): number {
  let depth = 0;
  for (; at < end; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      const after = skipText(bytes, at, end);
      if (after < 0) return -1;
      at = after - 1;
    } else if (isOpening(byte)) depth++;
    else if (isClosing(byte) && --depth === 0) return at + 1;
  }
  return -1;
}

/** Position of an object or array in a value, for error messages. */
interface Place {
  readonly container: object;
  readonly parent: Place | null;
  readonly key: string | number;
  /** Depth, from 1 for the outermost value. */
  readonly depth: number;
}

/** Maximum length of a key path in a message, in characters. Half of them are from its end. */
const SHOWN = 160;

/** Returns the key path of the value under `key` of `parent`, in JavaScript notation: `message.content[0].text`. */
function showPlace(parent: Place | null, key: string | number): string {
  if (parent === null) return "The value";
  const steps = [step(key)];
  for (let place = parent; place.parent !== null; place = place.parent) steps.push(step(place.key));
  const path = steps.reverse().join("").replace(/^\./, "");
  if (path.length <= SHOWN) return path;
  // The cut may split a surrogate pair.
  return `${path.slice(0, SHOWN / 2)}…${path.slice(-SHOWN / 2)}`.toWellFormed();
}

function step(key: string | number): string {
  if (typeof key === "number") return `[${key}]`;
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}

const encoder = new TextEncoder();

/**
 * Returns the JSON text of one line, without newline. The value has to pass {@link checkJson}. Lone surrogates in
 * strings and keys become U+FFFD. Parsing the text and formatting the result gives the same text. `limits` default to
 * {@link LINE_LIMITS}.
 *
 * @throws EspalierError `not-json`, `too-deep` (both name the key path), `line-too-long`
 */
export function formatLine(value: unknown, limits: LineLimits = {}): string {
  const { bytes = LINE_LIMITS.bytes } = limits;
  checkJson(value, limits);
  const text = wellFormedJson(JSON.stringify(value));
  // A UTF-16 unit takes at most three bytes, so most lines need not be measured.
  if (text.length > bytes || (text.length * 3 > bytes && encoder.encode(text).length > bytes)) {
    throw lineTooLong(bytes);
  }
  return text;
}

/**
 * Returns lines as bytes, with a newline after each; empty for no lines.
 *
 * @throws EspalierError `invalid-entry` when a line contains a newline: it would be read as two lines
 */
export function encodeLines(lines: readonly string[]): Uint8Array {
  lines.forEach(assertOneLine);
  return lines.length === 0 ? new Uint8Array() : encoder.encode(`${lines.join("\n")}\n`);
}

/** Throws `invalid-entry` when a line contains a newline. */
export function assertOneLine(line: string): void {
  if (line.includes("\n"))
    throw new EspalierError(
      "invalid-entry",
      "A line contains a newline; write JSON text without indentation.",
    );
}

/**
 * Returns JSON text from `JSON.stringify` with each lone surrogate in a string or a key replaced by U+FFFD; the same
 * text when there is none. Of keys that become equal, the last one is kept.
 *
 * `JSON.stringify` writes only lone surrogates as escapes that begin with `\ud`. After an escaped backslash, ordinary
 * text can look the same, so escaped backslashes are matched first.
 */
export function wellFormedJson(text: string): string {
  if (!text.includes("\\ud")) return text;
  const healed = text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (match) =>
    match === "\\\\" ? match : "\ufffd",
  );
  return healed === text ? text : jsonText(JSON.parse(healed));
}

/** Limits for writing a line. */
export interface LineLimits {
  /** Maximum nesting of arrays and objects. Default 256. `JSON.stringify` itself fails at about 4,000. */
  depth?: number;
  /** Maximum bytes of the encoded line, without its newline. Default 16 MiB. */
  bytes?: number;
}

/** Default limits of a line to write: 256 levels, 16 MiB. */
export const LINE_LIMITS: Required<LineLimits> = { depth: 256, bytes: 16 * 1024 * 1024 };

/**
 * Checks that `JSON.stringify` writes a value without loss or change (except object keys with value `undefined` and
 * symbol keys, which it leaves out), that no object has an own key `__proto__`, and that the depth is within the limit.
 * Does not recurse, and stops as soon as the text must be longer than `bytes`, so cycles and objects that are
 * referenced many times do not block it. Does not check the exact length in bytes.
 *
 * @throws EspalierError `not-json` or `too-deep`, with the key path; `line-too-long` when the text must be longer than
 * the limit
 */
export function checkJson(value: unknown, limits: LineLimits = {}): void {
  const { depth = LINE_LIMITS.depth, bytes = LINE_LIMITS.bytes } = limits;
  const open: Place[] = [];
  // Minimum length of the text of the values seen so far.
  let size = 0;

  const see = (item: unknown, parent: Place | null, key: string | number): void => {
    if (typeof item === "string") size += item.length + 2;
    else if (typeof item !== "object" || item === null) {
      if (item !== null && typeof item !== "boolean" && !Number.isFinite(item))
        throw notJson(item, parent, key);
      size += 1;
    } else {
      const place = { container: item, parent, key, depth: (parent?.depth ?? 0) + 1 };
      if (place.depth > depth) {
        throw new EspalierError(
          "too-deep",
          `${showPlace(parent, key)} is nested deeper than ${depth}, or contains itself; flatten it.`,
        );
      }
      // The opening bracket. The closing one is counted as a comma after the last item.
      size += 1;
      open.push(place);
    }
    if (size > bytes) throw lineTooLong(bytes);
  };

  see(value, null, "");
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    const { container } = place;
    if (Array.isArray(container)) {
      size += container.length;
      for (let index = 0; index < container.length; index += 1) see(container[index], place, index);
    } else if (isPlainObject(container)) {
      for (const key of Object.keys(container)) {
        const item = container[key];
        if (item === undefined) continue;
        if (key === "__proto__")
          throw new EspalierError(
            "not-json",
            `${showPlace(place, key)} is a key that some readers treat as a prototype; rename it.`,
          );
        size += key.length + 4;
        see(item, place, key);
      }
    } else {
      throw notJson(container, place.parent, place.key);
    }
  }
}

function lineTooLong(bytes: number): EspalierError {
  return new EspalierError(
    "line-too-long",
    `The line is longer than ${bytes} bytes; shorten it or raise the limit.`,
  );
}

/** Returns whether an object is an object literal, also one of another realm or without prototype. */
export function isPlainObject(container: object): container is Record<string, unknown> {
  const prototype = Object.getPrototypeOf(container);
  if (prototype === Object.prototype || prototype === null) return true;
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, "isPrototypeOf");
}

function notJson(item: unknown, parent: Place | null, key: string | number): EspalierError {
  const isNamed = typeof item === "number" || item === undefined;
  const kind =
    typeof item === "object"
      ? `an instance of ${item?.constructor?.name || "a class"}`
      : isNamed
        ? String(item)
        : `a ${typeof item}`;
  return new EspalierError(
    "not-json",
    `${showPlace(parent, key)} is ${kind}, which JSON cannot hold; convert it first.`,
  );
}
