import {
  type ByteView,
  EspalierError,
  forEachLine,
  formatLine,
  isSpace,
  type LineProblem,
  parseLine,
  salvageLine,
  skipSpace,
  skipValue,
} from "@espalier/jsonl-stream";
import { parseHeader, type SessionHeader } from "./entry.ts";
import type { Entry } from "./kinds.ts";
import { entryKinds } from "./kinds.ts";

/**
 * Meaning of a line of a log, or of one of several parts on it. Every line that is not blank is
 * exactly one of the other three, or several of them.
 */
export type SessionLine =
  | { is: "blank"; from: number }
  | { is: "header"; header: SessionHeader; from: number }
  /** `from` is where it begins within the line, here as in the others: not 0 when something comes before it. */
  | { is: "entry"; entry: Entry; from: number }
  /** `message` is a sentence without its full stop: the loss is named after it. */
  | { is: "corrupt"; message: string; from: number };

/**
 * Parses and judges one line: its last part, where there are several (see {@link readLineParts}). Its
 * bytes are the line without the newline.
 */
export function readSessionLine(bytes: Uint8Array): SessionLine {
  const parsed = parseLine(bytes);
  return parsed.ok ? judge(parsed.value, 0) : takeApart(bytes, parsed.problem).at(-1)!;
}

/**
 * Parses and judges all parts of a line, in order: nearly always one thing, and never none. Where newlines were
 * lost there are several, one up to the next: whole entries at the line's end, a header or
 * entries at its beginning, and between them what is no whole one.
 */
export function readLineParts(bytes: Uint8Array): SessionLine[] {
  const parsed = parseLine(bytes);
  return parsed.ok ? [judge(parsed.value, 0)] : takeApart(bytes, parsed.problem);
}

/** The parts of a line that is not one value. Linear in its length: each is parsed once, from the end while it lasts. */
function takeApart(bytes: Uint8Array, problem: LineProblem): SessionLine[] {
  if (problem.kind === "blank") return [{ is: "blank", from: 0 }];
  const last: SessionLine[] = [];
  let end = bytes.length;
  for (let found = entryAtEnd(bytes); found; found = entryAtEnd(bytes.subarray(0, end))) {
    last.push(found);
    end = found.from;
  }
  if (last.length === 0) return [{ is: "corrupt", message: problem.message.replace(/\.$/, ""), from: 0 }];
  last.reverse();
  const first = partsAtBeginning(bytes.subarray(0, end));
  // Space before the first one is a part of it, as on any line.
  if (first.length === 0) last[0]!.from = 0;
  return [...first, ...last];
}

/** The entry that ends a line, behind others or behind a torn one. */
function entryAtEnd(bytes: Uint8Array): SessionLine | undefined {
  const found = salvageLine(bytes, "{");
  return found && entryBehind(found.value, bytes, found.start, bytes.length);
}

/** A value after others, if it is an entry that is found there without parsing, so that all readers see the same ones. */
function entryBehind(
  value: unknown,
  bytes: Uint8Array,
  from: number,
  end: number,
): Extract<SessionLine, { is: "entry" }> | undefined {
  const line = judge(value, from);
  const isOne = line.is === "entry" && Object.hasOwn(value as object, "parentId");
  return isOne && hasMark(bytes.subarray(from, end)) ? line : undefined;
}

/** Whole ones from the beginning of a line on, and what is left of it. */
function partsAtBeginning(bytes: Uint8Array): SessionLine[] {
  const parts: SessionLine[] = [];
  let at = 0;
  for (let end = endOfObject(bytes, 0); end >= 0; end = endOfObject(bytes, at)) {
    const parsed = parseLine(bytes.subarray(at, end));
    if (!parsed.ok) break;
    const from = skipSpace(bytes, at, end);
    const line = at === 0 ? judge(parsed.value, 0) : entryBehind(parsed.value, bytes, from, end);
    if (!line || line.is === "corrupt") break;
    parts.push(line);
    at = end;
  }
  if (bytes.subarray(at).every(isSpace)) return parts;
  const message = `${bytes.length - at} bytes of a line that was cut stand before another entry`;
  return [...parts, { is: "corrupt", message, from: at }];
}

/** End of the JSON object that begins at `at`, behind space; -1 for none. */
function endOfObject(bytes: Uint8Array, at: number): number {
  const start = skipSpace(bytes, at, bytes.length);
  return bytes[start] === OPEN_BRACE ? skipValue(bytes, start, bytes.length) : -1;
}

const OPEN_BRACE = 123;

function judge(value: unknown, from: number): SessionLine {
  const header = parseHeader(value);
  if (header) return { is: "header", header, from };
  const problem = shapeProblem(value);
  return problem
    ? { is: "corrupt", message: problem, from }
    : { is: "entry", entry: normalize(value as Entry), from };
}

/** Reason for which a parsed value is no entry at all; a known kind checks the rest in its `problem`. */
function shapeProblem(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return "The line is not a JSON object";
  const { id, type, parentId } = value as Partial<Entry>;
  if (typeof type !== "string") return "The line has no `type`";
  if (typeof id !== "string" || id === "") return "The line has no `id`";
  if (parentId !== undefined && parentId !== null && typeof parentId !== "string")
    return "The `parentId` is neither an id nor null";
  return undefined;
}

/** Fills in missing fields: an entry without parent is a root, and a time that is not a text is empty. */
function normalize(entry: Entry): Entry {
  const { parentId, timestamp } = entry as Partial<Entry>;
  if (parentId !== undefined && typeof timestamp === "string") return entry;
  return { ...entry, parentId: parentId ?? null, timestamp: typeof timestamp === "string" ? timestamp : "" };
}

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const CLOSE_BRACE = 125;

/** Positions of a line's `type`, `id` and `parentId` in its block, quotes excluded. */
export class EntryScan {
  /** Position of the first byte of the value of `type`. */
  typeStart = 0;
  /** Position of the byte after it, which is its closing quote. */
  typeEnd = 0;
  /** Position of the first byte of the value of `id`. */
  idStart = 0;
  /** The byte behind it. */
  idEnd = 0;
  /** -1 when the parent is null. */
  parentStart = -1;
  /** The byte behind the parent's id; -1 when it is null. */
  parentEnd = -1;
  /** End of the scan: what follows was not looked at. */
  stop = 0;
}

/**
 * Finds `type`, `id` and `parentId` of a line in its bytes, without decoding or parsing it, and stops when it has all
 * three (with `isHead`, the bytes may be just the beginning of a line).
 * Only the top level counts, in any key order. False means "not sure": the line has to be parsed (an escape in
 * one of the three or in a key, a value of another type, a key that is missing, no closing brace at the end).
 *
 * A line that JSON.parse accepts and that has each key once gives here what parsing gives; `test/entry-scan.test.ts`
 * holds the two side by side.
 */
export function scanEntry(
  bytes: Uint8Array,
  start: number,
  end: number,
  found: EntryScan,
  isHead = false,
): boolean {
  if (!isHead && !endsInBrace(bytes, start, end)) return false;
  const at = skipSpace(bytes, start, end);
  if (bytes[at] !== OPEN_BRACE) return false;
  return scanFields(bytes, at + 1, end, found);
}

function endsInBrace(bytes: Uint8Array, start: number, end: number): boolean {
  let last = end - 1;
  while (last > start && isSpace(bytes[last]!)) last--;
  return bytes[last] === CLOSE_BRACE;
}

const encoder = new TextEncoder();

function stands(word: Uint8Array, bytes: Uint8Array, at: number): boolean {
  for (let i = 0; i < word.length; i++) if (bytes[at + i] !== word[i]) return false;
  return true;
}

/** End of a text without escapes, controls and anything beyond ASCII: its quote, if all is well. */
function plainEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && PLAIN[bytes[at]!] === 1) at++;
  return at;
}

/** 1 for every byte without a meaning of its own in a text: one look instead of four comparisons. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 32 && byte <= 126 && byte !== QUOTE && byte !== BACKSLASH ? 1 : 0,
);
const OTHER = 0;
const TYPE = 1;
const ID = 2;
const PARENT = 4;
const ALL = TYPE | ID | PARENT;

/** Key by key, from the first one at or behind `at`. */
function scanFields(bytes: Uint8Array, at: number, end: number, found: EntryScan): boolean {
  for (let seen = 0; ; at++) {
    const keyStart = skipSpace(bytes, at, end) + 1;
    const keyEnd = endOfKey(bytes, keyStart, end);
    if (keyEnd < 0) return false;
    const key = keyOf(bytes, keyStart, keyEnd);
    // A key that comes twice is for the parser, which lets the last one win.
    if (seen & key) return false;
    seen |= key;
    at = skipSpace(bytes, keyEnd + 1, end);
    if (bytes[at] !== COLON) return false;
    at = skipSpace(bytes, at + 1, end);
    at = key === OTHER ? skipValue(bytes, at, end) : takeValue(key, bytes, at, end, found);
    if (at < 0) return false;
    if (seen === ALL) found.stop = at;
    at = skipSpace(bytes, at, end);
    // What ends a text early, or late, is seen by what follows it.
    if (seen === ALL) return bytes[at] === COMMA || bytes[at] === CLOSE_BRACE;
    if (bytes[at] !== COMMA) return false;
  }
}

/** The closing quote of the key that begins at `start`; -1 where there is no key, or one with an escape. */
function endOfKey(bytes: Uint8Array, start: number, end: number): number {
  if (bytes[start - 1] !== QUOTE) return -1;
  let at = start;
  while (at < end && bytes[at] !== QUOTE) if (bytes[at++] === BACKSLASH) return -1;
  return at;
}

const TYPE_KEY = encoder.encode("type");
const PARENT_KEY = encoder.encode("parentId");
const NULL = encoder.encode("null");

/** Returns which of the three keys `bytes[start, end)` is. */
function keyOf(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length === 2) return bytes[start] === 105 && bytes[start + 1] === 100 ? ID : OTHER;
  if (length === 4) return stands(TYPE_KEY, bytes, start) ? TYPE : OTHER;
  if (length === 8) return stands(PARENT_KEY, bytes, start) ? PARENT : OTHER;
  return OTHER;
}

/** Notes the place of the value of one of the three; returns the position after it, -1 for one that the parser has to judge. */
function takeValue(key: number, bytes: Uint8Array, at: number, end: number, found: EntryScan): number {
  if (key === PARENT && at + NULL.length <= end && stands(NULL, bytes, at)) {
    found.parentStart = -1;
    found.parentEnd = -1;
    return at + NULL.length;
  }
  if (bytes[at] !== QUOTE) return -1;
  const valueStart = at + 1;
  // Beyond ASCII, two byte sequences could be one string after decoding replaced what is damaged.
  const valueEnd = plainEnd(bytes, valueStart, end);
  if (valueEnd >= end || bytes[valueEnd] !== QUOTE) return -1;
  if (key === TYPE) {
    found.typeStart = valueStart;
    found.typeEnd = valueEnd;
  } else if (key === ID) {
    if (valueEnd === valueStart) return -1;
    found.idStart = valueStart;
    found.idEnd = valueEnd;
  } else {
    found.parentStart = valueStart;
    found.parentEnd = valueEnd;
  }
  return valueEnd + 1;
}

/**
 * Finds lines that may hold a second entry, after a write that was cut or a newline that was lost. Every entry has one
 * `"parentId":` (inside a text its quotes are escaped, so it reads otherwise); a second one on the same line means
 * the line has to be parsed to know. The searches are native and cover each byte once, however many lines a block has.
 */
export class JoinedEntryFinder {
  #base = -1;
  #from = 0;
  #next = -1;
  #block: Uint8Array = new Uint8Array();
  #finder = finderOf(this.#block);

  /**
   * True when `"parentId":` is in `block[from, end)`. `base` is the offset of the block's first byte in the log: a
   * block buffer is used again and again, and the last answer helps only within the same bytes.
   */
  between(block: Uint8Array, base: number, from: number, end: number): boolean {
    if (block !== this.#block) {
      this.#block = block;
      this.#finder = finderOf(block);
      this.#base = -1;
    }
    if (base !== this.#base || from < this.#from || from > this.#next) {
      this.#base = base;
      this.#next = find(this.#finder, from);
    }
    this.#from = from;
    return this.#next < end;
  }
}

/** True when bytes have the mark: a part after another one on a line must have it to be taken for an entry. */
function hasMark(bytes: Uint8Array): boolean {
  return find(finderOf(bytes), 0) < bytes.length;
}

const MARK = encoder.encode('"parentId":');

/**
 * Bytes to search for. A native search of a short text jumps from one of its first bytes to the next, and a capital I
 * is rare where quotes are everywhere: this finds the mark five times as fast as the mark itself would.
 */
const RARE = encoder.encode('Id":');
const RARE_AT = MARK.length - RARE.length;

/** Node's Buffer searches natively for several bytes, a browser's Uint8Array for single ones only. */
interface Finder extends ArrayLike<number> {
  indexOf(sought: Uint8Array | number, from: number): number;
}

function finderOf(bytes: Uint8Array): Finder {
  const buffer = globalThis.Buffer;
  if (buffer === undefined) return bytes as Finder;
  return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const rare: Uint8Array | number = globalThis.Buffer === undefined ? RARE[0]! : globalThis.Buffer.from(RARE);

/** The position of the next mark at or behind `from`; beyond the bytes when there is none. */
function find(finder: Finder, from: number): number {
  for (let at = finder.indexOf(rare, from + RARE_AT); at >= 0; at = finder.indexOf(rare, at + RARE.length)) {
    const start = at - RARE_AT;
    let same = 0;
    while (same < MARK.length && finder[start + same] === MARK[same]) same++;
    if (same === MARK.length) return start;
  }
  return Number.POSITIVE_INFINITY;
}

const typeBytes = /* @__PURE__ */ entryKinds.map((kind) => encoder.encode(kind.type));
const SESSION = /* @__PURE__ */ encoder.encode("session");

/** The code of the kind whose type is `bytes[start, end)`; 0 for an unknown type, -1 for the type of a header. */
export function kindIn(bytes: Uint8Array, start: number, end: number): number {
  for (let code = 1; code < typeBytes.length; code++)
    if (spells(bytes, start, end, typeBytes[code]!)) return code;
  return spells(bytes, start, end, SESSION) ? -1 : 0;
}

/** Returns whether `bytes[start, end)` are those of a word. */
export function spells(bytes: Uint8Array, start: number, end: number, word: Uint8Array): boolean {
  if (end - start !== word.length) return false;
  for (let i = 0; i < word.length; i++) if (bytes[start + i] !== word[i]) return false;
  return true;
}

/** Returns whether `bytes[start, end)`, which are plain ASCII, equal a text. Runs for every line, so it does not decode. */
export function equalsText(bytes: Uint8Array, start: number, end: number, text: string): boolean {
  if (end - start !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text.charCodeAt(i)) return false;
  return true;
}

/** The line of a header, which may be given as that line, to be kept as it is. Throws EspalierError for one that is no JSON. */
export function headerLine(header: SessionHeader | string): string {
  return typeof header === "string" ? header : formatLine(header);
}

/** A header that may be given as its line. Throws `invalid-entry` for a line that is none. */
export function parsedHeader(header: SessionHeader | string): SessionHeader {
  if (typeof header !== "string") return header;
  const line = parseLine(new TextEncoder().encode(header));
  const parsed = line.ok ? parseHeader(line.value) : undefined;
  if (parsed) return parsed;
  throw new EspalierError("invalid-entry", "The first line of a session has to be its header.");
}

/** Bytes read at a time: a header has some hundred, and every log that is opened is asked for it. */
const BLOCK = 4 * 1024;

/**
 * Returns the header of a log: its first usable line. A torn or foreign line before it does not hide it; behind an entry
 * there is none, and the log is only read. For authors of stores: `SessionLog.header`.
 */
export function firstHeader(view: ByteView): SessionHeader | undefined {
  let header: SessionHeader | undefined;
  forEachLine(
    view,
    (block, start, end) => {
      for (const part of readLineParts(block.subarray(start, end))) {
        if (part.is === "header") header = part.header;
        if (part.is === "header" || part.is === "entry") return false;
      }
      return undefined;
    },
    { blockSize: BLOCK },
  );
  return header;
}

/** The type of the placeholder for an entry whose line can no longer be read. */
export const DAMAGED = "damaged";

/** Holds the place of an entry that was scanned and cannot be parsed: it has its id and its parent, and says nothing. */
export function placeholder(bytes: Uint8Array, scan: EntryScan): Entry {
  return { type: DAMAGED, id: idIn(bytes, scan), parentId: parentIn(bytes, scan), timestamp: "" };
}

export const idIn = (bytes: Uint8Array, { idStart, idEnd }: EntryScan): string =>
  decode(bytes, idStart, idEnd);

const parentIn = (bytes: Uint8Array, { parentStart, parentEnd }: EntryScan): string | null =>
  parentStart < 0 ? null : decode(bytes, parentStart, parentEnd);
const decoder = new TextDecoder();

const decode = (bytes: Uint8Array, start: number, end: number): string =>
  decoder.decode(bytes.subarray(start, end));
