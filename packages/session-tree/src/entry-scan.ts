import { isSpace, skipSpace, skipValue } from "@espalier/jsonl-stream";

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** Where a line's `type`, `id` and `parentId` stand in the block it was scanned in, quotes excluded. */
export class EntryScan {
  /** The first byte of the value of `type`. */
  typeStart = 0;
  /** The byte behind it: its closing quote. */
  typeEnd = 0;
  /** The first byte of the value of `id`. */
  idStart = 0;
  /** The byte behind it. */
  idEnd = 0;
  /** -1 when the parent is null. */
  parentStart = -1;
  /** The byte behind the parent's id; -1 when it is null. */
  parentEnd = -1;
  /** Where the scan stopped: what follows was not looked at. */
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
  return scanUsualOrder(bytes, at, end, found) || scanAnyOrder(bytes, at + 1, end, found);
}

function endsInBrace(bytes: Uint8Array, start: number, end: number): boolean {
  let last = end - 1;
  while (last > start && isSpace(bytes[last]!)) last--;
  return bytes[last] === CLOSE_BRACE;
}

const encoder = new TextEncoder();
/** What stands before the three values of a usual line. */
export const BEFORE_TYPE = encoder.encode('{"type":"');
export const BEFORE_ID = encoder.encode('","id":"');
export const BEFORE_PARENT = encoder.encode('","parentId":"');

/**
 * The way of nearly every line: the three keys first, without spaces, in the order in which Pi and we write them. False
 * says nothing but that the line has to be looked at key by key.
 */
function scanUsualOrder(bytes: Uint8Array, start: number, end: number, found: EntryScan): boolean {
  if (!stands(BEFORE_TYPE, bytes, start)) return false;
  const typeStart = start + BEFORE_TYPE.length;
  const typeEnd = plainEnd(bytes, typeStart, end);
  if (!stands(BEFORE_ID, bytes, typeEnd)) return false;
  const idStart = typeEnd + BEFORE_ID.length;
  const idEnd = plainEnd(bytes, idStart, end);
  if (idEnd === idStart || !stands(BEFORE_PARENT, bytes, idEnd)) return false;
  const parentStart = idEnd + BEFORE_PARENT.length;
  const parentEnd = plainEnd(bytes, parentStart, end);
  // Whatever is read beyond the line's end is not taken: an end lies behind every quote that was found.
  if (parentEnd + 1 >= end || bytes[parentEnd] !== QUOTE || bytes[parentEnd + 1] !== COMMA) return false;
  found.typeStart = typeStart;
  found.typeEnd = typeEnd;
  found.idStart = idStart;
  found.idEnd = idEnd;
  found.parentStart = parentStart;
  found.parentEnd = parentEnd;
  found.stop = parentEnd + 1;
  return true;
}

function stands(word: Uint8Array, bytes: Uint8Array, at: number): boolean {
  for (let i = 0; i < word.length; i++) if (bytes[at + i] !== word[i]) return false;
  return true;
}

/** Where a text without escapes, controls and anything beyond ASCII ends: at its quote, if all is well. */
function plainEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && PLAIN[bytes[at]!] === 1) at++;
  return at;
}

/** 1 for every byte that stands for itself in a text: one look instead of four comparisons. */
const PLAIN = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte >= 32 && byte <= 126 && byte !== QUOTE && byte !== BACKSLASH ? 1 : 0,
);

const OTHER = 0;
const TYPE = 1;
const ID = 2;
const PARENT = 4;
const ALL = TYPE | ID | PARENT;

/** Key by key, from the first one at or behind `at`. */
function scanAnyOrder(bytes: Uint8Array, at: number, end: number, found: EntryScan): boolean {
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

/** Which of the three keys `bytes[start, end)` spells. */
function keyOf(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length === 2) return bytes[start] === 105 && bytes[start + 1] === 100 ? ID : OTHER;
  if (length === 4) return stands(TYPE_KEY, bytes, start) ? TYPE : OTHER;
  if (length === 8) return stands(PARENT_KEY, bytes, start) ? PARENT : OTHER;
  return OTHER;
}

/** Notes where the value of one of the three stands; returns the position behind it, -1 for one that the parser has to judge. */
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
