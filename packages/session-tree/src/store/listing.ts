import { type ByteView, forEachLine, forEachLineBackward } from "@espalier/jsonl-stream";
import type { SessionHeader } from "../entry/entry.ts";
import { compaction, isMessage, type MessageEntry, sessionInfo } from "../entry/kinds.ts";
import { EntryScan, JoinedEntryFinder, readLineParts, scanEntry, spells } from "../entry/line.ts";
import { messageText } from "../entry/message.ts";
import { typedFrom } from "../tree/bookkeeping.ts";
import { FastLineScanner } from "../tree/compiled-scan.ts";
import { roleAt, sessionName } from "../tree/queries.ts";
import type { Tree } from "../tree/tree.ts";
import type { SessionListing } from "./store.ts";

/** Characters of the first message that a list shows. */
const FIRST_MESSAGE_LENGTH = 200;

/** Bytes of a log in which the first user message is searched. */
const HEAD_BYTES = 256 * 1024;

/** Bytes read at a time from the end: what was just read is then still where the processor has it at hand. */
const BLOCK = 64 * 1024;

/** Bytes read at a time where a log begins: mostly the first user message is among them. */
const HEAD_BLOCK = 16 * 1024;

/** Facts of a listing that are not in the log. */
export interface ListedAt {
  /** Storage name of the log. */
  ref: string;
  /** Last write of the log, ISO 8601. */
  modified: string;
  /** Stored bytes, where they differ from those that are read. */
  bytes?: number | undefined;
}

/**
 * Returns what a list shows of a log: the first user message from its beginning (as far as 256 KiB), the name and the
 * newest compaction by a search from its end. Undefined when the log has no header and no entry. For authors of stores:
 * what `SessionStore.list` yields.
 */
export function listingOf(view: ByteView, at: ListedAt): SessionListing | undefined {
  const usual = new FastLineScanner();
  try {
    return listingBy(usual, view, at);
  } finally {
    usual.release();
  }
}

function listingBy(usual: FastLineScanner, view: ByteView, at: ListedAt): SessionListing | undefined {
  const head = readHead(usual, view);
  if (!head.header && !head.hasEntries) return undefined;
  return {
    id: head.header?.id ?? "",
    ref: at.ref,
    cwd: head.header?.cwd ?? "",
    importedFrom: importedFrom(head.header),
    firstMessage: head.firstMessage,
    modified: at.modified,
    bytes: at.bytes ?? view.size,
    parent: head.header?.parent ?? null,
    ...readTail(usual, view),
  };
}

/** The agent that a header names as that of an imported session; null where it names none. */
export function importedFrom(header: SessionHeader | undefined): string | null {
  const agent: unknown = header?.importedFrom?.agent;
  return typeof agent === "string" && agent !== "" ? agent : null;
}

/** A message as a list shows it: the beginning of what the user typed; undefined where that is nothing. */
export function listedMessage({ message }: MessageEntry): string | undefined {
  const text = messageText(message);
  const start = typedFrom(text);
  // No character has more than two code units: of a text of megabytes no more is taken apart.
  const beginning = text.slice(start, start + 2 * FIRST_MESSAGE_LENGTH);
  return Array.from(beginning).slice(0, FIRST_MESSAGE_LENGTH).join("") || undefined;
}

/** Rows of a tree in which the first prompt is searched, as far as a list would. */
const TITLE_ROWS = 500;

/** The words by which people know a session: its name, else its first prompt as a list shows it; undefined for neither. */
export function titleOf(tree: Tree): string | undefined {
  const name = sessionName(tree);
  if (name !== undefined) return name;
  for (let row = 0; row < Math.min(tree.length, TITLE_ROWS); row++) {
    if (roleAt(tree, row) !== "user") continue;
    const entry = tree.entryAt(row);
    const words = isMessage(entry, "user") ? listedMessage(entry) : undefined;
    if (words !== undefined) return words;
  }
  return undefined;
}

function readHead(usual: FastLineScanner, view: ByteView) {
  let header: SessionHeader | undefined;
  let firstMessage: string | null = null;
  let hasEntries = false;
  forEachLine(
    view,
    (block, start, end, offset) => {
      for (const part of readLineParts(block.subarray(start, end))) {
        // As in opening: behind an entry there is no header.
        if (part.is === "header" && !hasEntries) header ??= part.header;
        else if (part.is === "entry") hasEntries = true;
        if (part.is === "entry" && isMessage(part.entry, "user")) {
          firstMessage = listedMessage(part.entry) ?? null;
          if (firstMessage !== null) return false;
        }
      }
      return offset > HEAD_BYTES ? false : undefined;
    },
    { blockSize: HEAD_BLOCK, finder: usual },
  );
  return { header, firstMessage, hasEntries };
}

function readTail(
  usual: FastLineScanner,
  view: ByteView,
): Pick<SessionListing, "name" | "updatedAt" | "lastCompaction"> {
  const found = {
    name: undefined as string | undefined,
    updatedAt: null as string | null,
    lastCompaction: null as string | null,
  };
  const scan = new EntryScan();
  const marks = new JoinedEntryFinder();
  forEachLineBackward(
    view,
    (block, start, end, offset) => {
      if (start === end) return undefined;
      const { isUsual } = usual;
      if (isUsual) usual.scanInto(scan, start);
      const isSure =
        isUsual ||
        (scanEntry(block, start, end, scan) && !marks.between(block, offset - start, scan.stop, end));
      const isSought = SOUGHT.some((type) => spells(block, scan.typeStart, scan.typeEnd, type));
      if (isSure && found.updatedAt !== null && !isSought) return undefined;
      for (const part of readLineParts(block.subarray(start, end)).reverse()) {
        if (part.is !== "entry") continue;
        const { entry } = part;
        const time = typeof entry.timestamp === "string" ? entry.timestamp : null;
        found.updatedAt ??= time;
        if (sessionInfo.is(entry)) found.name ??= entry.name ?? "";
        if (compaction.is(entry)) found.lastCompaction ??= time;
      }
      return found.name !== undefined && found.lastCompaction !== null ? false : undefined;
    },
    { blockSize: BLOCK, finder: usual },
  );
  return { ...found, name: found.name || null };
}

/** The types of which the newest is listed. */
const SOUGHT = [sessionInfo.type, compaction.type].map((type) => new TextEncoder().encode(type));
