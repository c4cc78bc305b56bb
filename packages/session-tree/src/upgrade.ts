import {
  type ByteView,
  bytesView,
  forEachLine,
  formatLine,
  JsonlError,
  parseLine,
} from "@espalier/jsonl-stream";
import { deriveId } from "./identifier.ts";
import { FORMAT_VERSION, parseHeader, type SessionHeader } from "./session-header.ts";

/** A log of format 1 or 2 as one of format 3. */
export interface UpgradedLog {
  view: ByteView;
  /** The bytes it was made from: what a copy has to be. */
  original: ByteView;
  /** The version it had. */
  from: number;
  /** For each line of the upgraded log, where the line begins in the original: issues are told by that. */
  originalOffsets: number[];
}

/**
 * Reads a log of an old version as one of the current version, in memory: line for line, the same ids each time
 * (derived from session id and line number). Lines that need no change, and lines that cannot be read, stay as bytes;
 * the latter are reported by who reads the log. Undefined for a log without a header, and for one that is not old.
 */
export function upgradeLog(view: ByteView, header: SessionHeader | undefined): UpgradedLog | undefined {
  if (!header || header.version >= FORMAT_VERSION) return undefined;
  const parts: Uint8Array[] = [];
  const originalOffsets: number[] = [];
  const upgrade = header.version < 2 ? fromFirst(header.id) : fromSecond;
  forEachLine(view, (block, start, end, offset, lineNumber, terminated) => {
    const bytes = block.slice(start, end);
    const parsed = parseLine(bytes);
    const upgraded = parsed.ok ? upgrade(parsed.value, lineNumber) : undefined;
    originalOffsets.push(offset);
    parts.push(upgraded === undefined ? bytes : encoder.encode(upgraded));
    // A last line without an end stays one: whoever looks for damage finds it there too.
    if (terminated) parts.push(LINE_FEED);
  });
  return { view: bytesView(concatenate(parts)), original: view, from: header.version, originalOffsets };
}

const encoder = new TextEncoder();
const LINE_FEED = Uint8Array.of(10);
const NO_LIMITS = { bytes: Number.POSITIVE_INFINITY, depth: Number.POSITIVE_INFINITY };

function concatenate(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The text of a line in the current version; undefined for a line that stays as it is. */
type UpgradeLine = (value: unknown, lineNumber: number) => string | undefined;

/** Version 1: no ids and no parents, one chain; a compaction names its first kept line by its place among the good ones. */
function fromFirst(sessionId: string): UpgradeLine {
  /** For each line that could be parsed: its id, if it is an entry. */
  const goodLines: (string | undefined)[] = [];
  const taken = new Set<string>();
  let parentId: string | null = null;
  return (value, lineNumber) => {
    const header = parseHeader(value);
    if (header)
      return goodLines.push(undefined) === 1 ? lineOf({ ...header, version: FORMAT_VERSION }) : undefined;
    if (!isEntry(value)) {
      goodLines.push(undefined);
      return undefined;
    }
    // A line with ids is none of an old file: the header lost its version. Others know the entry by its id.
    if (hasIds(value)) {
      goodLines.push(value.id);
      taken.add(value.id);
      parentId = value.id;
      return undefined;
    }
    const id = freshId(sessionId, lineNumber, taken);
    const place = goodLines.push(id) - 1;
    // These three first, where a reader that looks for them finds them soonest.
    const first = { type: value.type, id, parentId };
    const line = lineOf({ ...first, ...withoutHooks(value), ...first, ...firstKeptOf(value, goodLines) });
    if (line === undefined) goodLines[place] = undefined;
    else parentId = id;
    return line;
  };
}

function firstKeptOf(
  { type, firstKeptEntryIndex: index }: OldEntry,
  goodLines: readonly (string | undefined)[],
) {
  if (type !== "compaction" || typeof index !== "number") return {};
  const kept = goodLines[index];
  return { firstKeptEntryIndex: undefined, ...(kept === undefined ? {} : { firstKeptEntryId: kept }) };
}

function freshId(sessionId: string, lineNumber: number, taken: Set<string>): string {
  let id = deriveId(sessionId, lineNumber);
  for (let round = 1; taken.has(id); round++) id = deriveId(`${sessionId}#${round}`, lineNumber);
  taken.add(id);
  return id;
}

/** Version 2: messages of extensions had the role `hookMessage`. */
const fromSecond: UpgradeLine = (value) => {
  const header = parseHeader(value);
  if (header) return lineOf({ ...header, version: FORMAT_VERSION });
  if (!isEntry(value)) return undefined;
  const renamed = withoutHooks(value);
  return renamed === value ? undefined : lineOf(renamed);
};

type OldEntry = { type: string; message?: { role?: unknown } | null; [field: string]: unknown };

const hasIds = (entry: OldEntry): entry is OldEntry & { id: string } =>
  typeof entry["id"] === "string" &&
  entry["id"] !== "" &&
  (entry["parentId"] === null || typeof entry["parentId"] === "string");

const isEntry = (value: unknown): value is OldEntry =>
  typeof value === "object" && value !== null && typeof (value as OldEntry).type === "string";

function withoutHooks(entry: OldEntry): OldEntry {
  if (entry.type !== "message" || entry.message?.role !== "hookMessage") return entry;
  return { ...entry, message: { ...entry.message, role: "custom" } };
}

/** A value that was read and cannot be written (a key `__proto__`, nested too deep for the engine) leaves its line as it is. */
function lineOf(value: unknown): string | undefined {
  try {
    return formatLine(value, NO_LIMITS);
  } catch (error) {
    if (error instanceof JsonlError || error instanceof RangeError) return undefined;
    throw error;
  }
}
