import { isUtf8 } from "node:buffer";
import { type Entry, kindOf, readLineParts, SessionTreeError } from "@espalier/session-tree";

/** A line as the table has it. */
export interface LineRow {
  /** Null for a line that is no entry, or whose id cannot stand in a key. */
  id: string | null;
  parent: string | null;
  type: string | null;
  moves: boolean | null;
  firstKept: string | null;
  /** The line, when it is text; else `raw` has it. */
  text: string | null;
  raw: Uint8Array | null;
  /** Without its end. */
  bytes: Uint8Array;
  /** What stands on the line: several where newlines were lost. */
  entries: readonly Entry[];
  /** False for what only reading the whole session can judge. */
  isPlain: boolean;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** @throws SessionTreeError `invalid-entry` when the line holds a newline */
export function rowOfLine(line: string | Uint8Array): LineRow {
  const bytes = typeof line === "string" ? encoder.encode(line) : line;
  if (bytes.includes(10)) {
    throw new SessionTreeError(
      "invalid-entry",
      "A line holds a newline; write JSON text without indentation.",
    );
  }
  const isText = isUtf8(bytes) && !bytes.includes(0);
  const body = { text: isText ? decoder.decode(bytes) : null, raw: isText ? null : bytes, bytes };
  const none = { id: null, parent: null, type: null, moves: null, firstKept: null };
  const parts = readLineParts(bytes);
  const entries = parts.flatMap((part) => (part.is === "entry" ? [part.entry] : []));
  const [entry] = entries;
  const isBlank = parts.every(({ is }) => is === "blank");
  if (!entry || parts.length > 1) return { ...none, ...body, entries, isPlain: isBlank };
  const kind = kindOf(entry);
  const firstKept = (kind.problem?.(entry) ? undefined : kind.firstKept?.(entry)) ?? null;
  const named = [entry.id, entry.parentId, entry.type, firstKept];
  if (!isText || !named.every(isKeyable)) return { ...none, ...body, entries, isPlain: false };
  const target = kind.leafTarget?.(entry);
  return {
    id: entry.id,
    parent: entry.parentId,
    type: entry.type,
    moves: kind.movesLeaf,
    firstKept,
    ...body,
    entries,
    // The table takes a leaf's parent for its target, as older readers do.
    isPlain: target === undefined || target === entry.parentId,
  };
}

/** The header's line. */
export function rowOfHeader(line: string): LineRow {
  return { ...rowOfLine(line), isPlain: true };
}

/** What a column of text keeps as it is; ids are compared byte by byte, and are short. */
function isKeyable(text: string | null): boolean {
  return text === null || (text.length <= LONGEST_KEY && !/\0|\p{Surrogate}/u.test(text));
}

/** Characters of an id that an index entry has room for, with the other parts of its key. */
const LONGEST_KEY = 256;
