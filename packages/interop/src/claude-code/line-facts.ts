import { skipSpace, skipValue } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";

/** Facts that determine the position of a line in the tree. */
export interface LineFacts {
  type: string;
  /** Id of the line; empty when it has none. Ids are bytes, valid until the next line is read. */
  id: Uint8Array;
  /** Id of the line that it follows. */
  parentId: Uint8Array | undefined;
  marks: number;
  /** Id of the answer to which the line belongs. */
  message: Uint8Array | undefined;
  forkedFrom: unknown;
}

/** Numbers of the scanned fields. */
const FIELD = {
  type: 0,
  uuid: 1,
  parentUuid: 2,
  isSidechain: 3,
  isMeta: 4,
  isCompactSummary: 5,
  subtype: 6,
  message: 7,
  forkedFrom: 8,
} as const;
const NO_BYTES = new Uint8Array();
const encoder = new TextEncoder();

/** Reads the facts of lines, usually from their bytes without parsing. */
export class LineFactsReader {
  readonly #scan = new FieldScan(Object.keys(FIELD));
  readonly #answer = new FieldScan(["id"], { mayStop: true });

  /** Returns the facts of a line; undefined when the line has to be parsed for them. */
  read(block: Uint8Array, start: number, end: number): LineFacts | undefined {
    return this.#scan.scan(block, start, end) ? this.#scanned(block) : undefined;
  }

  #scanned(block: Uint8Array): LineFacts | undefined {
    const scan = this.#scan;
    if (!scan.isPlainText(FIELD.type)) return undefined;
    const hasId = scan.isGiven(FIELD.uuid);
    const hasParent = scan.isGiven(FIELD.parentUuid);
    if ((hasId && !scan.isPlainText(FIELD.uuid)) || (hasParent && !scan.isPlainText(FIELD.parentUuid)))
      return undefined;
    if (scan.isGiven(FIELD.forkedFrom)) return undefined;
    const type = scan.text(FIELD.type);
    return {
      type,
      id: hasId ? scan.textBytes(FIELD.uuid) : NO_BYTES,
      parentId: hasParent ? scan.textBytes(FIELD.parentUuid) : undefined,
      marks: marksOf({
        sidechain: scan.isTrue(FIELD.isSidechain),
        synthetic: scan.isTrue(FIELD.isMeta),
        summary: scan.isTrue(FIELD.isCompactSummary),
        boundary: scan.isPlainText(FIELD.subtype) && isBoundary(type, scan.text(FIELD.subtype)),
      }),
      message: type === "assistant" ? this.#answerId(block) : undefined,
      forkedFrom: undefined,
    };
  }

  #answerId(block: Uint8Array): Uint8Array | undefined {
    const from = this.#scan.starts[FIELD.message]!;
    const answer = this.#answer;
    if (from < 0 || !answer.scan(block, from, this.#scan.ends[FIELD.message]!) || !answer.isPlainText(0))
      return undefined;
    return answer.textBytes(0);
  }
}

/** Returns the facts of a parsed line. */
export function factsOf(line: Line): LineFacts {
  const { type, uuid, parentUuid, message, subtype } = line;
  const name = typeof type === "string" ? type : "";
  const answerId = name === "assistant" && isRecord(message) ? message["id"] : undefined;
  return {
    type: name,
    id: typeof uuid === "string" ? encoder.encode(uuid) : NO_BYTES,
    parentId: typeof parentUuid === "string" ? encoder.encode(parentUuid) : undefined,
    marks: marksOf({
      sidechain: line["isSidechain"] === true,
      synthetic: line["isMeta"] === true,
      summary: line["isCompactSummary"] === true,
      boundary: isBoundary(name, subtype),
    }),
    message: typeof answerId === "string" && answerId !== "" ? encoder.encode(answerId) : undefined,
    forkedFrom: line["forkedFrom"] ?? undefined,
  };
}

const isBoundary = (type: string, subtype: unknown): boolean =>
  type === "system" && subtype === "compact_boundary";

function marksOf(is: Record<"sidechain" | "synthetic" | "summary" | "boundary", boolean>): number {
  return (
    (is.sidechain ? LineMark.sidechain : 0) |
    (is.synthetic ? LineMark.synthetic : 0) |
    (is.summary ? LineMark.summary : 0) |
    (is.boundary ? LineMark.boundary : 0)
  );
}

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/**
 * Finds some fields of a JSON object in its bytes, without decoding or parsing it: enough for the position of a line,
 * and several times faster than parsing. It checks only the structure, so that an accepted line may still be invalid
 * JSON, which is found when it is parsed later. (The scanner of `session-tree` only finds three keys with plain texts.)
 */
class FieldScan {
  /** Start of the value of each wanted field, including quotes; -1 for a missing field. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  readonly #keys: readonly Uint8Array[];
  readonly #mayStop: boolean;
  #bytes: Uint8Array = new Uint8Array();

  /** @param mayStop true if the rest of the object may be skipped when all fields are found */
  constructor(keys: readonly string[], { mayStop = false } = {}) {
    this.#keys = keys.map((key) => new TextEncoder().encode(key));
    this.#mayStop = mayStop;
    this.starts = new Int32Array(keys.length);
    this.ends = new Int32Array(keys.length);
  }

  /**
   * Scans a line. False when it has to be parsed: it has an escape in a key, a repeated key, or is not a single object.
   */
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

  /** Returns whether a field has the literal value `true`. */
  isTrue(key: number): boolean {
    return this.ends[key]! - this.starts[key]! === 4 && this.#bytes[this.starts[key]!] === 116;
  }

  /** Returns whether a field is a text of ASCII without escapes, so that its bytes equal its text. */
  isPlainText(key: number): boolean {
    const start = this.starts[key]!;
    if (start < 0 || this.#bytes[start] !== QUOTE) return false;
    for (let at = start + 1; at < this.ends[key]! - 1; at++) {
      const byte = this.#bytes[at]!;
      if (byte === BACKSLASH || byte > 126 || byte < 32) return false;
    }
    return true;
  }

  text(key: number): string {
    return asciiText(this.#bytes, this.starts[key]! + 1, this.ends[key]! - 1);
  }

  /** Returns the bytes of a plain text, valid until the block changes. */
  textBytes(key: number): Uint8Array {
    return this.#bytes.subarray(this.starts[key]! + 1, this.ends[key]! - 1);
  }

  /** Returns whether a field is present and not null. */
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

/** Texts shorter than this are assembled faster than by a decoder. */
const SHORT = 48;
const decoder = new TextDecoder();

function asciiText(bytes: Uint8Array, start: number, end: number): string {
  if (end - start > SHORT) return decoder.decode(bytes.subarray(start, end));
  let text = "";
  for (let at = start; at < end; at++) text += String.fromCharCode(bytes[at]!);
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

/** Returns whether a line of this kind has a position in the tree. */
export const hasPlace = (kind: number): boolean => kind !== LineKind.aside && kind !== LineKind.repeated;

const PLACED: ReadonlyMap<string, number> = new Map([
  ["user", LineKind.user],
  ["assistant", LineKind.assistant],
  ["system", LineKind.system],
  ["attachment", LineKind.attachment],
  ["progress", LineKind.progress],
]);

/**
 * Returns the kind of a line. Messages have a position in the tree even without an id; lines of unknown types have one
 * if they have an id, because other lines may follow them.
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

/** A line of a file, parsed. */
export type Line = Record<string, unknown>;

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
