import { skipSpace, skipValue } from "@espalier/jsonl-stream";

/** A line of a file, parsed. */
export type Line = Record<string, unknown>;

const encoder = new TextEncoder();

/** Fields that determine the position of a line in the tree, with their bytes. */
const PLACE = new Map(
  "type uuid parentUuid isSidechain isMeta isCompactSummary subtype message forkedFrom"
    .split(" ")
    .map((name) => [name, encoder.encode(name)]),
);
const ID = new Map([["id", encoder.encode("id")]]);

const LOWER_F = 102;
const LOWER_N = 110;
const LOWER_T = 116;
const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/**
 * Reads the fields that determine the position of a line from its bytes, several times faster than parsing. Only the
 * structure is checked: an accepted line may be invalid JSON, and parsing it later finds the error. (The scanner of
 * `session-tree` only finds three keys with plain texts.)
 *
 * Undefined when the line has to be parsed: it is not a single object, or has an escape in a key, a key twice, a field
 * that is neither a plain text nor a literal, or no type, which is a sign of damage.
 */
export function scanLine(bytes: Uint8Array, start: number, end: number): Line | undefined {
  const line = scanFields(bytes, start, end, PLACE);
  if (typeof line?.["type"] !== "string") return undefined;
  const { type, message } = line;
  // Only the message of an answer has facts: the id by which its lines belong together.
  if (type !== "assistant" || !isSpan(message)) return line;
  line["message"] = scanFields(bytes, ...message, ID);
  return line["message"] === undefined ? undefined : line;
}

/** Position of a value that is neither a plain text nor a literal (`true`, `false`, `null`). */
type Span = [start: number, end: number];

const isSpan = (value: unknown): value is Span => Array.isArray(value);

/** Reads some fields of an object; undefined when the object has to be parsed. */
function scanFields(
  bytes: Uint8Array,
  start: number,
  end: number,
  wanted: ReadonlyMap<string, Uint8Array>,
): Line | undefined {
  const found: Line = {};
  let at = skipSpace(bytes, start, end);
  for (let mark = OPEN_BRACE; bytes[at] === mark; mark = COMMA) {
    at = skipSpace(bytes, at + 1, end);
    if (bytes[at] !== QUOTE) return undefined;
    const keyStart = at + 1;
    for (at = keyStart; bytes[at] !== QUOTE; at++) if (at >= end || bytes[at] === BACKSLASH) return undefined;
    const key = keyAt(bytes, keyStart, at, wanted);
    at = skipSpace(bytes, at + 1, end);
    if (bytes[at] !== COLON) return undefined;
    const valueStart = skipSpace(bytes, at + 1, end);
    at = skipValue(bytes, valueStart, end);
    if (at < 0) return undefined;
    if (key !== undefined) {
      if (key in found) return undefined;
      const value = valueAt(bytes, valueStart, at);
      if (isSpan(value) && key !== "message") return undefined;
      found[key] = value;
      // Only the id of a message is needed.
      if (wanted === ID) return found;
    }
    at = skipSpace(bytes, at, end);
    if (bytes[at] === CLOSE_BRACE) return skipSpace(bytes, at + 1, end) === end ? found : undefined;
  }
  return undefined;
}

function keyAt(
  bytes: Uint8Array,
  start: number,
  end: number,
  wanted: ReadonlyMap<string, Uint8Array>,
): string | undefined {
  for (const [name, letters] of wanted) {
    if (letters.length !== end - start) continue;
    let same = 0;
    while (same < letters.length && letters[same] === bytes[start + same]) same++;
    if (same === letters.length) return name;
  }
  return undefined;
}

/** Maximum bytes of a text that is assembled here, faster than by a decoder. */
const SHORT = 48;
const decoder = new TextDecoder();

/**
 * Returns `true`, `false`, `null`, or a text of printable ASCII without escapes, whose bytes equal its text; for any other
 * value, its position.
 */
function valueAt(bytes: Uint8Array, start: number, end: number): string | boolean | null | Span {
  const first = bytes[start];
  if (first === LOWER_T) return true;
  if (first === LOWER_F) return false;
  if (first === LOWER_N) return null;
  if (first !== QUOTE) return [start, end];
  const textEnd = end - 1;
  for (let at = start + 1; at < textEnd; at++) {
    const byte = bytes[at]!;
    if (byte === BACKSLASH || byte > 126 || byte < 32) return [start, end];
  }
  if (textEnd - start > SHORT) return decoder.decode(bytes.subarray(start + 1, textEnd));
  let text = "";
  for (let at = start + 1; at < textEnd; at++) text += String.fromCharCode(bytes[at]!);
  return text;
}

/** Kinds of lines, as numbers for a column. */
export const LineKind = {
  aside: 0,
  user: 1,
  assistant: 2,
  system: 3,
  attachment: 4,
  progress: 5,
  unknown: 6,
  /** Repetition of an earlier line: it makes no entry. */
  repeated: 7,
} as const;

const PLACED: ReadonlyMap<string, number> = new Map(
  (["user", "assistant", "system", "attachment", "progress"] as const).map((type) => [type, LineKind[type]]),
);

/**
 * Returns the kind of a line. Lines of users and answers have a position in the tree even without an id; lines of all
 * other types, also unknown ones, have one only with an id, because other lines may follow them.
 */
export function kindOfLine(type: string, hasId: boolean): number {
  const placed = PLACED.get(type);
  if (placed === undefined) return hasId ? LineKind.unknown : LineKind.aside;
  return hasId || placed === LineKind.user || placed === LineKind.assistant ? placed : LineKind.aside;
}

/** Marks of a line. */
export const LineMark = {
  sidechain: 1,
  /** Line that the user did not type. */
  synthetic: 2,
  summary: 4,
  boundary: 8,
  /** Another line follows it in the tree. */
  followed: 16,
  /** The line has no id, or the id of another line: its entry's id is derived from the id and the line number. */
  renamed: 32,
  /** The line is a copy that names its original; its entry gets the original's id. */
  claimed: 64,
  /** The line's parent was lost: it follows the previous line. */
  bridged: 128,
} as const;

/** Returns the marks of a line by its own fields. */
export function marksOf(line: Line): number {
  const isBoundary = line["type"] === "system" && line["subtype"] === "compact_boundary";
  return (
    (line["isSidechain"] === true ? LineMark.sidechain : 0) |
    (line["isMeta"] === true ? LineMark.synthetic : 0) |
    (line["isCompactSummary"] === true ? LineMark.summary : 0) |
    (isBoundary ? LineMark.boundary : 0)
  );
}

const IN_MESSAGES = "its content is in the messages";

/**
 * Types of lines without a position in the tree that are not part of the conversation, with the reason for leaving them
 * out.
 */
const BOOKKEEPING: ReadonlyMap<string, string> = new Map([
  ["api-request", `it describes how a request was made; ${IN_MESSAGES}`],
  ["api-request-shape", `it describes how a request was made; ${IN_MESSAGES}`],
  ["api-request-blob", `it is a part of a request; ${IN_MESSAGES}`],
  ["atis-latch", "it is a switch of the agent's own transport"],
  ["last-prompt", "it is a hint at the newest prompt, which is in the conversation"],
  ["queue-operation", "it is about the queue of prompts; those that were sent are in the conversation"],
  ["tools-used", "it lists names of tools, which are in the calls"],
]);

/** Returns the reason for leaving a line out, as a sentence; undefined for a line that is kept. */
export function reasonToLeaveOut(type: string): string | undefined {
  const reason = BOOKKEEPING.get(type);
  return reason && `\`${type}\` is left out: ${reason}.`;
}
