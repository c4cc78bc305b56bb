import { type ByteView, bytesView, forEachLine, joinBytes, parseLine } from "@espalier/jsonl-stream";
import { deriveId, FORMAT_VERSION, parseHeader, type SessionHeader } from "../entry/entry.ts";
import { firstHeader, lineIfWritable, readLineParts, shapeProblem } from "../entry/line.ts";
import { Tree } from "../tree/tree.ts";

/**
 * Reads the bytes of a session file as a tree: any version of the format, whole or damaged. Writes nothing. An old
 * version is read as the current one. Lines that cannot be read are in `issues` of the tree.
 */
export function readTree(bytes: Uint8Array): Tree {
  const view = bytesView(bytes);
  return new Tree(upgradeLog(view, firstHeader(view))?.view ?? view);
}

/** A log of format 1 or 2, upgraded to format 3. */
export interface UpgradedLog {
  /** The upgraded bytes. */
  view: ByteView;
  /** The original bytes. A copy of the session has to equal these. */
  original: ByteView;
  /** Original version of the log. */
  from: number;
  /** For each line of the upgraded log, the offset of the line in the original. Used for issues. */
  originalOffsets: number[];
}

/**
 * Reads a log of an old version as one of the current version, in memory, line by line. Lines without changes and lines
 * that cannot be read stay unchanged; readers of the log report the latter. Undefined for a log without a header, and
 * for one of the current or a newer version.
 */
export function upgradeLog(view: ByteView, header: SessionHeader | undefined): UpgradedLog | undefined {
  const upgrade = header && lineUpgrade(header);
  if (!upgrade) return undefined;
  const parts: Uint8Array[] = [];
  const originalOffsets: number[] = [];
  forEachLine(view, (block, start, end, offset, lineNumber, terminated) => {
    originalOffsets.push(offset);
    parts.push(upgrade(block.slice(start, end), lineNumber));
    // A last line without a newline stays so, because a search for damage reports it.
    if (terminated) parts.push(LINE_FEED);
  });
  return { view: bytesView(joinBytes(parts)), original: view, from: header.version, originalOffsets };
}

const LINE_FEED = Uint8Array.of(10);

/**
 * Upgrades the next line of a log to format 3. `lineNumber` counts from 1. Returns the same bytes when nothing changes.
 */
export type LineUpgrade = (bytes: Uint8Array, lineNumber: number) => Uint8Array;

/** Memory of an upgrade from version 1: facts about the lines so far. */
export interface UpgradeMemory {
  /** Number of lines so far that could be parsed. */
  readonly length: number;
  /** Adds the next line that could be parsed, with the id of its entry; undefined for a line without an entry. */
  add(id: string | undefined): void;
  /** Returns the id that was added at a position, from 0. */
  idAt(place: number): string | undefined;
  /** Adds an id that a line already had. */
  take(id: string): void;
  /** Returns whether a line already had this id. */
  isTaken(id: string): boolean;
}

/**
 * Returns a function that upgrades the lines of an old log, one by one from the first. Ids are derived from the session
 * id and the line number, so they are the same every time. Undefined for a log of the current or a newer version.
 *
 * @param memory facts about earlier lines; default: an array and a set
 */
export function lineUpgrade(
  { version, id }: SessionHeader,
  memory: UpgradeMemory = arrayMemory(),
): LineUpgrade | undefined {
  if (version >= FORMAT_VERSION) return undefined;
  const upgrade = version < 2 ? fromFirst(id, memory) : fromSecond;
  const upgraded: LineUpgrade = (bytes, lineNumber) => {
    const parsed = parseLine(bytes);
    const text = parsed.ok ? upgrade(parsed.value, lineNumber) : undefined;
    if (text !== undefined) return encoder.encode(text);
    const parts = parsed.ok ? [] : readLineParts(bytes);
    if (parts.length < 2) return bytes;
    // The parts of one line stay on one line, because lines are counted.
    const pieces = parts.map(({ from }, at) =>
      upgraded(bytes.subarray(from, parts[at + 1]?.from), lineNumber),
    );
    return joinBytes(pieces);
  };
  return upgraded;
}

const encoder = new TextEncoder();
const NO_LIMITS = { bytes: Number.POSITIVE_INFINITY, depth: Number.POSITIVE_INFINITY };

function arrayMemory(): UpgradeMemory {
  const ids: (string | undefined)[] = [];
  const taken = new Set<string>();
  return {
    get length() {
      return ids.length;
    },
    add: (id) => void ids.push(id),
    idAt: (place) => ids[place],
    take: (id) => void taken.add(id),
    isTaken: (id) => taken.has(id),
  };
}

/** Returns the text of a line in the current version; undefined for a line that stays unchanged. */
type UpgradeValue = (value: unknown, lineNumber: number) => string | undefined;

/**
 * Upgrades version 1: one chain without ids or parents. A compaction names its first kept line by its position among
 * the lines that can be parsed.
 */
function fromFirst(sessionId: string, memory: UpgradeMemory): UpgradeValue {
  let parentId: string | null = null;
  return (value, lineNumber) => {
    const header = parseHeader(value);
    if (!isEntry(value) || header) {
      memory.add(undefined);
      return header && memory.length === 1 ? lineOf({ ...header, version: FORMAT_VERSION }) : undefined;
    }
    // A line with ids is not from an old file; the header lost its version. The line keeps its id, because other lines
    // refer to it.
    if (hasIds(value)) {
      memory.add(value.id);
      memory.take(value.id);
      parentId = value.id;
      return undefined;
    }
    const id = freshId(sessionId, lineNumber, memory);
    const first = { type: value.type, id, parentId };
    const line = lineOf({ ...first, ...renameHooks(value), ...first, ...firstKeptOf(value, id, memory) });
    memory.add(line === undefined ? undefined : id);
    if (line !== undefined) parentId = id;
    return line;
  };
}

/** @param ownId the new id of the compaction, which the index can name too */
function firstKeptOf({ type, firstKeptEntryIndex: index }: OldEntry, ownId: string, memory: UpgradeMemory) {
  if (type !== "compaction" || typeof index !== "number") return {};
  const kept = index === memory.length ? ownId : isPlace(index, memory) ? memory.idAt(index) : undefined;
  return { firstKeptEntryIndex: undefined, ...(kept === undefined ? {} : { firstKeptEntryId: kept }) };
}

const isPlace = (index: number, { length }: UpgradeMemory): boolean =>
  Number.isInteger(index) && index >= 0 && index < length;

/** Returns a derived id. Derived ids are unique like random ones, so only ids that lines already had are avoided. */
function freshId(sessionId: string, lineNumber: number, memory: UpgradeMemory): string {
  let id = deriveId(sessionId, lineNumber);
  for (let round = 1; memory.isTaken(id); round++) id = deriveId(`${sessionId}#${round}`, lineNumber);
  return id;
}

/**
 * Upgrades version 2, in which messages of extensions had the role `hookMessage`. A value that is not an entry keeps its
 * bytes, so that the positions of entries after it on the same line stay the same.
 */
const fromSecond: UpgradeValue = (value) => {
  const header = parseHeader(value);
  if (header) return lineOf({ ...header, version: FORMAT_VERSION });
  if (shapeProblem(value) !== undefined) return undefined;
  const renamed = renameHooks(value as OldEntry);
  return renamed === value ? undefined : lineOf(renamed);
};

type OldEntry = { type: string; message?: { role?: unknown } | null; [field: string]: unknown };

const hasIds = (entry: OldEntry): entry is OldEntry & { id: string } =>
  typeof entry["id"] === "string" &&
  entry["id"] !== "" &&
  (entry["parentId"] === null || typeof entry["parentId"] === "string");

const isEntry = (value: unknown): value is OldEntry =>
  typeof value === "object" && value !== null && typeof (value as OldEntry).type === "string";

function renameHooks(entry: OldEntry): OldEntry {
  if (entry.type !== "message" || entry.message?.role !== "hookMessage") return entry;
  return { ...entry, message: { ...entry.message, role: "custom" } };
}

/** Returns a value as a line; undefined for a value that cannot be written, whose line stays unchanged. */
const lineOf = (value: unknown): string | undefined => lineIfWritable(value, NO_LIMITS);
