import { type ByteView, forEachLine, forEachLineBackward } from "@espalier/jsonl-stream";
import type { SessionHeader } from "../entry/entry.ts";
import { compaction, isMessage, type MessageEntry, sessionInfo } from "../entry/kinds.ts";
import { hasMark, readLineParts, spells } from "../entry/line.ts";
import { messageText } from "../entry/message.ts";
import { FastLineScanner } from "../tree/compiled-scan.ts";
import { roleAt, sessionName, typedFrom } from "../tree/queries.ts";
import type { Tree } from "../tree/tree.ts";
import type { SessionListing } from "./store.ts";

/** Maximum number of characters of the first message in a list. */
const FIRST_MESSAGE_LENGTH = 200;

/** Bytes at the beginning of a log that are searched for the first user message. */
const HEAD_BYTES = 256 * 1024;

/** Bytes read at once from the end. A block of this size stays in the processor's cache. */
const BLOCK = 64 * 1024;

/** Bytes read at once from the beginning. Most logs have the first user message within them. */
const HEAD_BLOCK = 16 * 1024;

/** Facts of a listing that are not in the log. */
export interface ListedAt {
  /** Storage name of the log. */
  ref: string;
  /** Last write of the log, ISO 8601. */
  modified: string;
  /** Stored bytes, when they differ from those of the view. Default: the size of the view. */
  bytes?: number | undefined;
}

/**
 * Returns the listing of a log. Reads the header and the first prompt from the log's beginning (up to 256 KiB), and the
 * name and the newest compaction by a search from its end. Undefined when the beginning has no header and no entry. For
 * authors of stores: use it in `SessionStore.list`.
 */
export function listingOf(view: ByteView, at: ListedAt): SessionListing | undefined {
  const usual = new FastLineScanner();
  const head = readHead(usual, view);
  if (!head.header && !head.hasEntries) return undefined;
  const tail = readTail(usual, view);
  return {
    id: head.header?.id ?? "",
    ref: at.ref,
    cwd: head.header?.cwd ?? "",
    importedFrom: importedFrom(head.header),
    firstMessage: head.firstMessage,
    modified: at.modified,
    bytes: at.bytes ?? view.size,
    parent: head.header?.parent ?? null,
    ...tail,
    updatedAt: lastChange(head.header, tail.updatedAt),
  };
}

/**
 * Returns `lastEntry`, the newest known timestamp of a session's entries, or the time of the session's creation when that is
 * later (as in a new fork) or `lastEntry` is null. Null when both are missing. A `lastEntry` that is not ISO 8601 is
 * returned unchanged.
 */
export function lastChange(header: SessionHeader | undefined, lastEntry: string | null): string | null {
  const created: unknown = header?.timestamp;
  if (typeof created !== "string" || Number.isNaN(Date.parse(created))) return lastEntry;
  return lastEntry === null || Date.parse(created) > Date.parse(lastEntry) ? created : lastEntry;
}

/** Returns the agent that a header names as the source of an import; null when it names none. */
export function importedFrom(header: SessionHeader | undefined): string | null {
  const agent: unknown = header?.importedFrom?.agent;
  return typeof agent === "string" && agent !== "" ? agent : null;
}

/** A slash command without arguments, such as `/mode`. It says nothing about a session. */
const LONE_COMMAND = /^\s*\/[a-z][\w:-]*\s*$/i;

/**
 * Returns a message as a list shows it: the first 200 characters of the typed text; undefined when the text is empty or
 * only the name of a slash command.
 */
export function listedMessage({ message }: MessageEntry): string | undefined {
  const text = messageText(message);
  const start = typedFrom(text);
  if (LONE_COMMAND.test(text.slice(start, start + FIRST_MESSAGE_LENGTH))) return undefined;
  // A character has at most two code units, so this part is enough and a text of megabytes is not split.
  const beginning = text.slice(start, start + 2 * FIRST_MESSAGE_LENGTH);
  return Array.from(beginning).slice(0, FIRST_MESSAGE_LENGTH).join("") || undefined;
}

/** Rows of a tree that are searched for the first prompt. */
const TITLE_ROWS = 500;

/**
 * Returns the title of a session for people: its name, or else the first prompt among its first 500 entries, as in a
 * list; undefined when there is neither.
 */
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

/** Path of a worktree inside a repository. The last folder has the name of a branch or a number. */
const WORKTREES = /^(.*[^/\\])[/\\]+(?:\.worktrees|\.claude[/\\]+worktrees)[/\\]/;

/**
 * Returns the name of the project of a working folder: its last part, and for a worktree (`cli/.worktrees/1`,
 * `cli/.claude/worktrees/fix`) the folder of the repository.
 */
export function projectName(cwd: string): string {
  const [, repository = cwd] = WORKTREES.exec(cwd) ?? [];
  return repository.split(/[\\/]/).filter(Boolean).at(-1) ?? cwd;
}

function readHead(usual: FastLineScanner, view: ByteView) {
  let header: SessionHeader | undefined;
  let firstMessage: string | null = null;
  let hasEntries = false;
  forEachLine(
    view,
    (block, start, end, offset) => {
      for (const part of readLineParts(block.subarray(start, end))) {
        // A header after an entry does not count, as when a session is opened.
        if (part.is === "header" && !hasEntries) header ??= part.header;
        // A line of another agent can have a type and an id, but no parent.
        else if (part.is === "entry") hasEntries ||= hasMark(block.subarray(start, end));
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
  forEachLineBackward(
    view,
    (block, start, end, offset) => {
      if (start === end) return undefined;
      const isSure = usual.scan(block, start, end, offset);
      const { typeStart, typeEnd } = usual.entry;
      const isSought = SOUGHT.some((type) => spells(block, typeStart, typeEnd, type));
      if (isSure && found.updatedAt !== null && !isSought) return undefined;
      for (const part of readLineParts(block.subarray(start, end)).reverse()) {
        if (part.is !== "entry") continue;
        const { entry } = part;
        const time = entry.timestamp || null;
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

/** Types whose newest entry is part of the listing. */
const SOUGHT = [sessionInfo.type, compaction.type].map((type) => new TextEncoder().encode(type));
