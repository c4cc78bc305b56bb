import { type ByteView, forEachLine, forEachLineBackward } from "@espalier/jsonl-stream";
import { compaction } from "./entries/compaction.ts";
import { isMessage, type MessageEntry } from "./entries/message.ts";
import { sessionInfo } from "./entries/session-info.ts";
import { EntryScan, scanEntry } from "./entry-scan.ts";
import { messageText } from "./message.ts";
import type { SessionHeader } from "./session-header.ts";
import { readSessionLine } from "./session-line.ts";
import type { SessionListing } from "./session-store.ts";
import { spells } from "./spells.ts";

/** Characters of the first message that a list shows. */
const FIRST_MESSAGE_LENGTH = 200;

/** How far into a log the first user message is looked for. */
const HEAD_BYTES = 256 * 1024;

/** Bytes read at a time: where every file is read for itself, touching a larger block anew costs more than reading. */
const BLOCK = 64 * 1024;

/** What a list shows that is not said in the log. */
export interface ListedAt {
  ref: string;
  /** ISO 8601. */
  modified: string;
  /** Bytes that stand there, where that is not what is read. */
  bytes?: number | undefined;
}

/**
 * What a list shows of a log: the first user message from its beginning, the name and the newest compaction by a
 * search from its end. Undefined when the log has no header and no entry.
 */
export function listingOf(view: ByteView, at: ListedAt): SessionListing | undefined {
  const head = readHead(view);
  if (!head.header && !head.hasEntries) return undefined;
  return {
    id: head.header?.id ?? "",
    ref: at.ref,
    cwd: head.header?.cwd ?? "",
    firstMessage: head.firstMessage,
    modified: at.modified,
    bytes: at.bytes ?? view.size,
    parent: head.header?.parent ?? null,
    ...readTail(view),
  };
}

/** A message as a list shows it: the beginning of its text. */
export function listedMessage({ message }: MessageEntry): string {
  // No character has more than two code units: of a text of megabytes no more is taken apart.
  const beginning = messageText(message).slice(0, 2 * FIRST_MESSAGE_LENGTH);
  return Array.from(beginning).slice(0, FIRST_MESSAGE_LENGTH).join("");
}

function readHead(view: ByteView) {
  let header: SessionHeader | undefined;
  let firstMessage: string | null = null;
  let hasEntries = false;
  forEachLine(
    view,
    (block, start, end, offset) => {
      const line = readSessionLine(block.subarray(start, end));
      // As for who opens it: behind an entry there is none.
      if (line.is === "header" && !hasEntries) header ??= line.header;
      else if (line.is === "entry") hasEntries = true;
      if (line.is === "entry" && isMessage(line.entry, "user")) {
        firstMessage = listedMessage(line.entry);
        return false;
      }
      return offset > HEAD_BYTES ? false : undefined;
    },
    { blockSize: BLOCK },
  );
  return { header, firstMessage, hasEntries };
}

function readTail(view: ByteView): Pick<SessionListing, "name" | "updatedAt" | "lastCompaction"> {
  const found = {
    name: undefined as string | undefined,
    updatedAt: null as string | null,
    lastCompaction: null as string | null,
  };
  const scan = new EntryScan();
  forEachLineBackward(
    view,
    (block, start, end) => {
      if (start === end) return undefined;
      const isSure = scanEntry(block, start, end, scan);
      const isSought = SOUGHT.some((type) => spells(block, scan.typeStart, scan.typeEnd, type));
      if (isSure && found.updatedAt !== null && !isSought) return undefined;
      const line = readSessionLine(block.subarray(start, end));
      if (line.is !== "entry") return undefined;
      const { entry } = line;
      const time = typeof entry.timestamp === "string" ? entry.timestamp : null;
      found.updatedAt ??= time;
      if (sessionInfo.is(entry) && !sessionInfo.problem?.(entry)) found.name ??= entry.name ?? "";
      if (compaction.is(entry)) found.lastCompaction ??= time;
      return found.name !== undefined && found.lastCompaction !== null ? false : undefined;
    },
    { blockSize: BLOCK },
  );
  return { ...found, name: found.name || null };
}

/** The types of which the newest is told. */
const SOUGHT = [sessionInfo.type, compaction.type].map((type) => new TextEncoder().encode(type));
