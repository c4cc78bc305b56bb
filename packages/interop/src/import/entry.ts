import { type ByteView, checkJson, EspalierError, wellFormedJson } from "@espalier/jsonl-stream";
import { type Entry, ID_ALPHABET, ID_LENGTH, isSessionId, mixBits } from "@espalier/session-tree";

/** Content of an entry without its position. */
export interface EntryBody {
  type: string;
  [field: string]: unknown;
}

/**
 * Makes an entry whose first fields are `type`, `id`, `parentId` and `timestamp`, which a reader needs first.
 * `Object.assign` is several times faster here than a spread.
 */
export function entryOf(body: EntryBody, id: string, parentId: string | null, timestamp: string): Entry {
  return Object.assign({ type: body.type, id, parentId, timestamp }, body) as Entry;
}

/** A time as a source names it: ISO 8601 for entries, epoch milliseconds for messages. */
export interface SourceTime {
  iso: string;
  ms: number;
}

/**
 * Reads a time: text that `Date` can parse, or epoch milliseconds. Any other value gives the previous time, `before`, so
 * that entries stay in order.
 */
export function readTime(value: unknown, before: SourceTime): SourceTime {
  if (typeof value === "string") {
    const ms = Date.parse(value);
    if (!Number.isNaN(ms)) return { iso: ISO.test(value) ? value : new Date(ms).toISOString(), ms };
  }
  if (typeof value === "number" && Math.abs(value) <= LATEST)
    return { iso: new Date(value).toISOString(), ms: value };
  return before;
}

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** Latest time of a date, in milliseconds. */
const LATEST = 8.64e15;

/** Time for sources without times. */
export const NO_TIME: SourceTime = { iso: new Date(0).toISOString(), ms: 0 };

/** Depth from which values are written as text: a line is at most 256 deep, and copied values are inside an entry. */
const DEEPEST = 200;

/**
 * Returns the line of an entry. Values nested too deeply become text, keys `__proto__` are renamed, and lone surrogates
 * become U+FFFD; `changed` is then called with a sentence about it.
 *
 * Entries of an importer come from parsed lines, so most can be written at once. Values are checked only in case of
 * doubt, because that takes as long as writing.
 */
export function lineOf(entry: Entry, changed: (message: string) => void): string {
  if (isShallow(entry, DEEPEST)) {
    const text = JSON.stringify(entry);
    if (!text.includes("\\ud") && !text.includes("__proto__")) return text;
  }
  let storable: unknown = entry;
  try {
    checkJson(entry, { bytes: Number.POSITIVE_INFINITY });
  } catch (error) {
    // Nested too deeply to be written, or with a key that is unsafe for simple readers.
    if (!(error instanceof EspalierError)) throw error;
    changed(
      "Values that a session cannot store are kept as text: nested too deeply, or under a key `__proto__`.",
    );
    storable = tame(entry, 0);
  }
  const text = JSON.stringify(storable);
  const line = wellFormedJson(text);
  if (line !== text) changed("Halves of characters that were cut apart are replaced by U+FFFD.");
  return line;
}

/** Returns whether no value is nested deeper than `deepest`, which also limits the recursion. */
function isShallow(value: object, deepest: number): boolean {
  if (deepest === 0) return false;
  for (const key in value) {
    const item: unknown = (value as Record<string, unknown>)[key];
    if (typeof item === "object" && item !== null && !isShallow(item, deepest - 1)) return false;
  }
  return true;
}

function tame(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEEPEST) return textOf(value);
  if (Array.isArray(value)) return value.map((item) => tame(item, depth + 1));
  const fields = Object.entries(value).map(([key, item]): [string, unknown] => [
    key === "__proto__" ? "[__proto__]" : key,
    tame(item, depth + 1),
  ]);
  return Object.fromEntries(fields);
}

function textOf(value: object): string {
  try {
    return JSON.stringify(value);
  } catch {
    return "[nested too deeply to be kept]"; // deeper than the call stack; the report says so
  }
}

const SOUND_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Derives an id from a text: always the same for the same text, with the alphabet and length of a random id. */
export function idFromText(text: string): string {
  return hashWords(text).map(digits).join("");
}

/**
 * Derives a UUID from a text, always the same for the same text (version 8, which RFC 9562 reserves for custom
 * schemes).
 */
export function uuidFromText(text: string): string {
  const words = [...hashWords(text), ...hashWords(`${text}#`)].slice(0, 4);
  const hex = words.map((word) => word.toString(16).padStart(8, "0")).join("");
  const variant = "89ab"[Number.parseInt(hex[16]!, 16) % 4]!;
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}

/** Returns an id that is a UUID in lower case; for any other id a UUID derived from it. */
export const uuidOf = (id: string): string =>
  /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? id : uuidFromText(id);

/** Returns the UUID of a line that an export writes for an entry: for the first line (`at` 0), that of the entry's id. */
export const uuidOfLine = (entryId: string, at: number): string =>
  at === 0 ? uuidOf(entryId) : uuidFromText(`${uuidOf(entryId)}/${at}`);

/** Derives three words of 32 bits from a text. */
function hashWords(text: string): [number, number, number] {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  let c = 0x85ebca6b;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul((b ^ unit) + (b >>> 15), 0x2c1b3c6d);
    c = Math.imul(c ^ unit, 0x297a2d39) + (c >>> 13);
  }
  return [mixBits(a ^ text.length), mixBits(b ^ a), mixBits(c ^ b)];
}

/** Returns a name from a source, at most 64 characters, with `mark` for each run of unusual ones. */
export const shortName = (name: string, mark: "-" | "?" = "-"): string =>
  name.replace(/[^\w.-]+/g, mark).slice(0, 64);

/** Returns the id that a source gave, if it is valid here; else an id derived from it. */
export function idFromSource(id: string): string {
  return SOUND_ID.test(id) ? id : idFromText(id);
}

/** Returns the id of a session: that of its source, if it can be part of a file name; else an id derived from it. */
export function sessionIdFromSource(id: string): string {
  return isSessionId(id) ? id : idFromText(id);
}

/** Returns a third of an id: 62^4 of the 2^32 values, so that an id has 71 bits. */
function digits(value: number): string {
  let text = "";
  let rest = value;
  for (let at = 0; at < ID_LENGTH / 3; at++) {
    text += ID_ALPHABET[rest % ID_ALPHABET.length];
    rest = Math.floor(rest / ID_ALPHABET.length);
  }
  return text;
}

/** Cost for sources without prices: zeros, because readers of the session format add them up. */
export const NO_COST = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };

/** Number of bytes searched together; matches are much shorter. */
const BLOCK = 1 << 20;

/** Number of bytes of a block that are searched again with the next one, so that no match between blocks is missed. */
const OVERLAP = 256;

/** Returns whether a pattern matches anywhere in a file, without reading lines. */
export function mentions(view: ByteView, pattern: RegExp): boolean {
  const decoder = new TextDecoder("latin1");
  for (let offset = 0; offset < view.size; offset += BLOCK - OVERLAP)
    if (pattern.test(decoder.decode(view.read(offset, BLOCK)))) return true;
  return false;
}
