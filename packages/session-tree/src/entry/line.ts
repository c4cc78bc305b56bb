import {
  type ByteView,
  EspalierError,
  forEachLine,
  formatLine,
  isSpace,
  type LineLimits,
  type LineProblem,
  parseLine,
  salvageLine,
  skipSpace,
  skipValue,
} from "@espalier/jsonl-stream";
import { parseHeader, type SessionHeader } from "./entry.ts";
import { type Entry, entryKinds } from "./kinds.ts";

/** Content of a line of a log, or of one part of a line with several parts. */
export type SessionLine =
  | { is: "blank"; from: number }
  | { is: "header"; header: SessionHeader; from: number }
  /** `from` is the offset of the part within its line, for every kind. It is not 0 when another part comes first. */
  | { is: "entry"; entry: Entry; from: number }
  /** `message` is a sentence without its full stop; callers append what was lost. */
  | { is: "corrupt"; message: string; from: number };

/**
 * Parses and classifies one line. Returns its last part when the line has several (see {@link readLineParts}). `bytes`
 * is the line without its newline.
 */
export function readSessionLine(bytes: Uint8Array): SessionLine {
  return readLineParts(bytes).at(-1)!;
}

/**
 * Parses and classifies all parts of a line, in order; at least one. Nearly every line has one part. A line has several
 * when newlines were lost: a header or entries at its beginning, bytes that are not a whole entry in the middle, and
 * whole entries at its end.
 */
export function readLineParts(bytes: Uint8Array): SessionLine[] {
  const parsed = parseLine(bytes);
  return parsed.ok ? [judge(parsed.value, 0)] : takeApart(bytes, parsed.problem);
}

/**
 * Returns the parts of a line that is not one JSON value. Linear in the line's length: each part is parsed once, from
 * the end backwards as long as entries are found.
 */
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
  // Space before the first entry belongs to it, as on any other line.
  if (first.length === 0) last[0]!.from = 0;
  return [...first, ...last];
}

/** Returns the entry that ends a line, after other entries or after a torn one. */
function entryAtEnd(bytes: Uint8Array): SessionLine | undefined {
  const found = salvageLine(bytes, "{");
  return found && entryBehind(found.value, bytes, found.start, bytes.length);
}

/**
 * Returns a value after another one as an entry. Undefined when the scan without parsing would not find it, so that all
 * readers find the same entries.
 */
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

/** Returns the whole parts from the beginning of a line, and the rest of the line as one corrupt part. */
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
  const message = `${bytes.length - at} bytes of a cut line are before another entry`;
  return [...parts, { is: "corrupt", message, from: at }];
}

/** Returns the end of the JSON object that begins at or after `at`, after optional space; -1 when there is none. */
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

/**
 * Returns the reason why a parsed value is not an entry; undefined when it is one. Checks only `type`, `id` and
 * `parentId`: the `problem` of a kind checks the other fields.
 */
export function shapeProblem(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return "The line is not a JSON object";
  const { id, type, parentId } = value as Partial<Entry>;
  if (typeof type !== "string") return "The line has no `type`";
  if (typeof id !== "string" || id === "") return "The line has no `id`";
  if (parentId !== undefined && parentId !== null && typeof parentId !== "string")
    return "The `parentId` is neither an id nor null";
  return undefined;
}

/** Fills in missing fields: a missing parent becomes null, a timestamp that is not a text becomes an empty one. */
function normalize(entry: Entry): Entry {
  const { parentId, timestamp } = entry as Partial<Entry>;
  if (parentId !== undefined && typeof timestamp === "string") return entry;
  return { ...entry, parentId: parentId ?? null, timestamp: typeof timestamp === "string" ? timestamp : "" };
}

const LINE_FEED = 10;
const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const CLOSE_BRACE = 125;

/** Positions of a line's `type`, `id` and `parentId` in its block, quotes excluded. */
export class EntryScan {
  /** Position of the first byte of the value of `type`. */
  typeStart = 0;
  /** Position of the closing quote of the value of `type`. */
  typeEnd = 0;
  /** Position of the first byte of the value of `id`. */
  idStart = 0;
  /** Position of the closing quote of the value of `id`. */
  idEnd = 0;
  /** Position of the first byte of the parent's id; -1 when the parent is null. */
  parentStart = -1;
  /** Position of the closing quote of the parent's id; -1 when the parent is null. */
  parentEnd = -1;
  /** Position after the last of the three values. The bytes after it were not scanned. */
  stop = 0;
}

/**
 * Finds `type`, `id` and `parentId` of a line in its bytes without decoding or parsing them. Stops when all three are
 * found. With `isHead`, the bytes can be only the beginning of a line. Only the top level counts, in any order of keys.
 *
 * False means "not sure", and the line has to be parsed: an escape in a key or in one of the three values, a value of
 * another type, a missing key, or no closing brace at the end.
 *
 * For a line that `JSON.parse` accepts and that has each key once, the result equals that of parsing;
 * `test/entry-scan.test.ts` compares the two.
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

/** Returns the end of a text's plain part (ASCII without controls and escapes). In a plain text that is its closing quote. */
function plainEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && PLAIN[bytes[at]!] === 1) at++;
  return at;
}

/** 1 for every byte that needs no special handling in a text. One lookup replaces four comparisons. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 32 && byte <= 126 && byte !== QUOTE && byte !== BACKSLASH ? 1 : 0,
);
const OTHER = 0;
const TYPE = 1;
const ID = 2;
const PARENT = 4;
const ALL = TYPE | ID | PARENT;

/** Scans one field after another, from the first one at or after `at`. */
function scanFields(bytes: Uint8Array, at: number, end: number, found: EntryScan): boolean {
  for (let seen = 0; ; at++) {
    const keyStart = skipSpace(bytes, at, end) + 1;
    const keyEnd = endOfKey(bytes, keyStart, end);
    if (keyEnd < 0) return false;
    const key = keyOf(bytes, keyStart, keyEnd);
    // A line with a repeated key has to be parsed: the parser uses the last value.
    if (seen & key) return false;
    seen |= key;
    at = skipSpace(bytes, keyEnd + 1, end);
    if (bytes[at] !== COLON) return false;
    at = skipSpace(bytes, at + 1, end);
    at = key === OTHER ? skipValue(bytes, at, end) : takeValue(key, bytes, at, end, found);
    if (at < 0) return false;
    if (seen === ALL) found.stop = at;
    at = skipSpace(bytes, at, end);
    // A value that was cut or did not end where expected is detected here, by the byte after it.
    if (seen === ALL) return bytes[at] === COMMA || bytes[at] === CLOSE_BRACE;
    if (bytes[at] !== COMMA) return false;
  }
}

/** Returns the closing quote of the key that begins at `start`; -1 when there is no key, or when it has an escape. */
function endOfKey(bytes: Uint8Array, start: number, end: number): number {
  if (bytes[start - 1] !== QUOTE) return -1;
  let at = start;
  while (at < end && bytes[at] !== QUOTE) if (bytes[at++] === BACKSLASH) return -1;
  return at;
}

const TYPE_KEY = encoder.encode("type");
const PARENT_KEY = encoder.encode("parentId");
const NULL = encoder.encode("null");

/** Returns which of the three keys `bytes[start, end)` is, or `OTHER`. */
function keyOf(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length === 2) return bytes[start] === 105 && bytes[start + 1] === 100 ? ID : OTHER;
  if (length === 4) return spells(bytes, start, end, TYPE_KEY) ? TYPE : OTHER;
  if (length === 8) return spells(bytes, start, end, PARENT_KEY) ? PARENT : OTHER;
  return OTHER;
}

/**
 * Records the position of the value of one of the three keys. Returns the position after the value; -1 when the line
 * has to be parsed.
 */
function takeValue(key: number, bytes: Uint8Array, at: number, end: number, found: EntryScan): number {
  if (key === PARENT && spells(bytes, at, at + NULL.length, NULL)) {
    found.parentStart = -1;
    found.parentEnd = -1;
    return at + NULL.length;
  }
  if (bytes[at] !== QUOTE) return -1;
  const valueStart = at + 1;
  // Only ASCII: decoding replaces damaged bytes, so two different byte sequences could give the same string.
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
 * Finds lines that may hold a second entry, after a write that was cut off or a newline that was lost. Every entry has
 * `"parentId":` once, because the quotes of the same words inside a text are escaped. A line with it twice has to be
 * parsed. The searches are native and read each byte once, for any number of lines in a block.
 */
export class JoinedEntryFinder {
  #base = -1;
  #from = 0;
  #next = -1;
  #block: Uint8Array = new Uint8Array();
  #finder = finderOf(this.#block);

  /**
   * Returns whether `"parentId":` is in `block[from, end)`. `base` is the offset of the block's first byte in the log.
   * The last result is reused only for the same bytes: one buffer holds one block after another.
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

/** Returns whether bytes contain `"parentId":`. A part after another part on a line counts as an entry only if it does. */
export function hasMark(bytes: Uint8Array): boolean {
  return find(finderOf(bytes), 0) < bytes.length;
}

const MARK = encoder.encode('"parentId":');

/**
 * Bytes to search for. A native search for a short text jumps from one candidate for its first byte to the next. A
 * capital I is rare and quotes are frequent, so this search is five times as fast as one for the whole of {@link MARK}.
 */
const RARE = encoder.encode('Id":');
const RARE_AT = MARK.length - RARE.length;

/**
 * Subset of Node's Buffer, which searches natively for several bytes. A browser's Uint8Array searches for single bytes
 * only.
 */
interface Finder extends ArrayLike<number> {
  indexOf(sought: Uint8Array | number, from: number): number;
}

function finderOf(bytes: Uint8Array): Finder {
  const buffer = globalThis.Buffer;
  if (buffer === undefined) return bytes as Finder;
  return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const rare: Uint8Array | number = globalThis.Buffer === undefined ? RARE[0]! : globalThis.Buffer.from(RARE);

/** Returns the position of the next {@link MARK} at or after `from`; infinity when there is none. */
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

/** Returns the code of the kind whose type is `bytes[start, end)`; 0 for an unknown type, -1 for the type of a header. */
export function kindIn(bytes: Uint8Array, start: number, end: number): number {
  for (let code = 1; code < typeBytes.length; code++)
    if (spells(bytes, start, end, typeBytes[code]!)) return code;
  return spells(bytes, start, end, SESSION) ? -1 : 0;
}

/** Returns whether `bytes[start, end)` equal a word. */
export function spells(bytes: Uint8Array, start: number, end: number, word: Uint8Array): boolean {
  if (end - start !== word.length) return false;
  for (let i = 0; i < word.length; i++) if (bytes[start + i] !== word[i]) return false;
  return true;
}

/**
 * Returns whether `bytes[start, end)`, which are plain ASCII, equal a text. Does not decode, because it runs for every
 * line.
 */
export function equalsText(bytes: Uint8Array, start: number, end: number, text: string): boolean {
  if (end - start !== text.length) return false;
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text.charCodeAt(i)) return false;
  return true;
}

/**
 * Returns the line of a header. A header given as its line is returned unchanged.
 * @throws EspalierError `not-json`, `too-deep`, `line-too-long` for a header that cannot be written as a line
 */
export function headerLine(header: SessionHeader | string): string {
  return typeof header === "string" ? header : formatLine(header);
}

/** Returns a header; parses it when it is given as its line. Throws `invalid-entry` for a line that is not a header. */
export function parsedHeader(header: SessionHeader | string): SessionHeader {
  if (typeof header !== "string") return header;
  const line = parseLine(new TextEncoder().encode(header));
  const parsed = line.ok ? parseHeader(line.value) : undefined;
  if (parsed) return parsed;
  throw new EspalierError("invalid-entry", "The first line of a session has to be its header.");
}

/** Bytes read at once. A header has a few hundred, and it is read from every log that is opened. */
const BLOCK = 4 * 1024;

/**
 * Returns the header of a log: its first header before any entry. Torn or foreign lines before it are skipped.
 * Undefined when an entry comes first or there is no header; such a log can only be read. For authors of stores:
 * `SessionLog.header`.
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

/** Bytes that are searched at once for the end of a line. */
const SEARCHED = 1 << 16;

/** Returns the offset of the first newline at or after an offset; the size of the view when there is none. */
export function lineEnd(view: ByteView, from: number): number {
  for (let at = from; at < view.size; at += SEARCHED) {
    const found = view.read(at, SEARCHED).indexOf(LINE_FEED);
    if (found >= 0) return at + found;
  }
  return view.size;
}

/**
 * Returns the line of a value that was read; undefined when it cannot be written, because it has a key `__proto__` or
 * exceeds `limits`.
 */
export function lineIfWritable(value: unknown, limits?: LineLimits): string | undefined {
  try {
    return formatLine(value, limits);
  } catch (error) {
    // A RangeError: the value is nested too deeply for the engine.
    if (error instanceof EspalierError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/**
 * Returns an entry as its line has it: lone surrogates are replaced.
 * @throws EspalierError `invalid-entry` if it names an id that has one: its line would name another entry, or none
 */
export function entryAsWritten(given: Entry, line: string): Entry {
  const written = JSON.parse(line) as Entry;
  const named = (entry: Entry, field: string) => (entry as unknown as Record<string, unknown>)[field];
  const changed = ["parentId", "targetId", "firstKeptEntryId"].find(
    (field) => typeof named(given, field) === "string" && named(given, field) !== named(written, field),
  );
  if (changed === undefined) return written;
  const message = `The ${given.type} entry is not valid: its \`${changed}\` has a lone surrogate, which no line can have; name another entry.`;
  throw new EspalierError("invalid-entry", message);
}

/** Type of the placeholder for an entry whose line can no longer be read. */
export const DAMAGED = "damaged";

/**
 * Returns the placeholder for an entry that was scanned and cannot be parsed: type {@link DAMAGED}, the entry's id and
 * parent, an empty timestamp, and no content.
 */
export function placeholder(bytes: Uint8Array, scan: EntryScan): Entry {
  return { type: DAMAGED, id: idIn(bytes, scan), parentId: parentIn(bytes, scan), timestamp: "" };
}

export const idIn = (bytes: Uint8Array, { idStart, idEnd }: EntryScan): string =>
  decode(bytes, idStart, idEnd);

export const parentIn = (bytes: Uint8Array, { parentStart, parentEnd }: EntryScan): string | null =>
  parentStart < 0 ? null : decode(bytes, parentStart, parentEnd);
const decoder = new TextDecoder();

const decode = (bytes: Uint8Array, start: number, end: number): string =>
  decoder.decode(bytes.subarray(start, end));
