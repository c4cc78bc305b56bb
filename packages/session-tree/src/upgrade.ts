import { type ByteView, bytesView, forEachLine, formatLine, parseLine } from "@espalier/jsonl-stream";
import type { Entry } from "./entry.ts";
import { deriveId } from "./identifier.ts";
import { FORMAT_VERSION, parseHeader, type SessionHeader } from "./session-header.ts";

/** A log of format 1 or 2 as one of format 3. */
export interface UpgradedLog {
  view: ByteView;
  /** The version it had. */
  from: number;
  /** For each line of the upgraded log, where the line begins in the original: issues are told by that. */
  originalOffsets: number[];
}

/**
 * Reads a log of an old version as one of the current version, in memory: line for line, the same ids each time
 * (derived from session id and line number). Lines that cannot be read stay as they are, to be reported.
 */
export function upgradeLog(view: ByteView, header: SessionHeader): UpgradedLog {
  const parts: Uint8Array[] = [];
  const originalOffsets: number[] = [];
  const upgrade = header.version < 2 ? fromFirst(header.id) : renameHooks;
  forEachLine(view, (block, start, end, offset, lineNumber, terminated) => {
    const bytes = block.slice(start, end);
    const parsed = parseLine(bytes);
    const upgraded = parsed.ok ? upgrade(parsed.value, lineNumber) : undefined;
    originalOffsets.push(offset);
    parts.push(upgraded === undefined ? bytes : encoder.encode(formatLine(upgraded, NO_LIMITS)));
    // A tail that was cut stays one; a whole one gets its end.
    if (terminated || upgraded !== undefined) parts.push(LINE_FEED);
  });
  return { view: bytesView(concatenate(parts)), from: header.version, originalOffsets };
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

type UpgradeLine = (value: unknown, lineNumber: number) => unknown;

/** Version 1: no ids and no parents, one chain; a compaction names its first kept line by its place among the good ones. */
function fromFirst(sessionId: string): UpgradeLine {
  const goodLines: (string | undefined)[] = [];
  const taken = new Set<string>();
  let parentId: string | null = null;
  return (value, lineNumber) => {
    const header = parseHeader(value);
    if (header) {
      goodLines.push(undefined);
      return goodLines.length === 1 ? { ...header, version: FORMAT_VERSION } : undefined;
    }
    if (typeof value !== "object" || value === null || typeof (value as Entry).type !== "string")
      return undefined;
    const id = freshId(sessionId, lineNumber, taken);
    goodLines.push(id);
    const { type, firstKeptEntryIndex, ...rest } = renameHooks(value) as Entry & {
      firstKeptEntryIndex?: unknown;
    };
    const entry = { ...rest, type, id, parentId };
    parentId = id;
    if (type !== "compaction" || typeof firstKeptEntryIndex !== "number") return ordered(entry);
    const kept = goodLines[firstKeptEntryIndex];
    return ordered(kept === undefined ? entry : Object.assign(entry, { firstKeptEntryId: kept }));
  };
}

/** `type`, `id`, `parentId` first, where a reader that looks for them finds them soonest. */
function ordered({ type, id, parentId, ...rest }: Entry): Entry {
  return { type, id, parentId, ...rest } as Entry;
}

function freshId(sessionId: string, lineNumber: number, taken: Set<string>): string {
  let id = deriveId(sessionId, lineNumber);
  for (let round = 1; taken.has(id); round++) id = deriveId(`${sessionId}#${round}`, lineNumber);
  taken.add(id);
  return id;
}

/** Version 2: messages of extensions had the role `hookMessage`. */
function renameHooks(value: unknown): unknown {
  const header = parseHeader(value);
  if (header) return { ...header, version: FORMAT_VERSION };
  const entry = value as { type?: unknown; message?: { role?: unknown } } | null;
  if (entry?.type !== "message" || entry.message?.role !== "hookMessage") return value;
  return { ...entry, message: { ...entry.message, role: "custom" } };
}
