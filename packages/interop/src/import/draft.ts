import { type ByteView, parseLine, scanLines } from "@espalier/jsonl-stream";
import {
  compaction,
  type Entry,
  entryKinds,
  FORMAT_VERSION,
  kindOf,
  type ParentLink,
  type RowIndex,
  type SessionHeader,
} from "@espalier/session-tree";
import type { ScratchArea, ScratchSpace } from "../scratch/space.ts";
import type { ImportIssues } from "./issue.ts";

/** An entry of an earlier import. */
export interface KnownEntry {
  /** Number of lines of the source that it was made of. */
  lines: number;
  /** True where it has its usage. */
  isBilled: boolean;
}

/** Results of an earlier import, with which a second one gives the same entries. */
export interface DraftOptions {
  /** An entry that is in the session already; lines added to it since become an entry of their own. */
  known?(id: string): KnownEntry | undefined;
  /** Readable summaries, by entry id, in place of those that only their provider can read. */
  summaries?: ReadonlyMap<string, string>;
}

/**
 * A session as an importer reads it: nothing is written. Drafts of one file follow one another; take the next one only
 * when the entries of the one before have all been read, or will never be.
 */
export interface SessionDraft {
  readonly agent: string;
  /** The session's id there, by which it is found when it is imported again. */
  readonly sourceId: string;
  /** The id that the session gets here, unless another one has it. */
  readonly sessionId: string;
  /** The folder in which the agent worked; empty where the source does not say. */
  readonly cwd: string;
  readonly source: SourceFile;
  /** Complete when all entries have been read. */
  readonly issues: ImportIssues;
  /** Lines of the source that are about this session, blank ones aside. Complete when all entries have been read. */
  readonly lines: number;
  /** Leaf of the source; null before the first entry, undefined until all entries have been read. */
  readonly leafId: string | null | undefined;
  /** Counts of copied lines; complete with them. Undefined where entries are made: the writer counts them. */
  readonly counts?: SessionCounts | undefined;
  /** The session's first line. May read a good deal, of other files too: to be asked for when it is needed. */
  header(): SessionHeader;
  /**
   * The entries, parents before their children; bytes are a line to be copied as it is. The same each time, but call it
   * again only after it came to its end.
   */
  entries(options?: DraftOptions): Generator<Entry | Uint8Array, void>;
  /** Returns whether another file has an entry with this id in the same session. */
  isElsewhere(id: string): boolean;
}

/** Reads the sessions of one agent. Made for one run: it may remember what it met. */
export interface SessionImporter {
  /** As recorded in `importedFrom`. */
  readonly agent: string;
  /** Returns whether a file with this first readable line belongs to the agent. */
  recognises(firstLine: unknown): boolean;
  /**
   * The sessions in a file: usually one. Reads little until they are asked for their entries, which must all have been
   * read, if they are to be, before another file is.
   */
  read(source: SourceFile): Iterable<SessionDraft>;
}

/** The files around a file: sessions go on in others, begin in others, and have sub-agents in others. */
export interface SiblingFiles {
  /** Paths of the agent's session files, the oldest first. */
  readonly files: readonly string[];
  /** Undefined when there is no such file, or it cannot be read. */
  open(path: string): SourceFile | undefined;
  /** Scratch space for the columns of lines; default: memory. */
  readonly scratch?: ScratchSpace;
}

/** A file that needs no other file. */
export const NO_SIBLINGS: SiblingFiles = { files: [], open: () => undefined };

/** A file of another agent, opened. */
export interface SourceFile {
  /** Its path, or its name where there is no path (a file dropped onto a page). */
  path: string;
  view: ByteView;
  /** SHA-256 of its bytes, hex; asked for only when a header is made. */
  digest(): string;
}

/** The first line of a session made from a source; without `version` and `parent` where they are undefined. */
export function importedHeader(
  { agent, sourceId, sessionId, cwd, source }: SessionDraft,
  { timestamp, version, parent }: { timestamp: string; version: unknown; parent: ParentLink | undefined },
): SessionHeader {
  return {
    type: "session",
    version: FORMAT_VERSION,
    id: sessionId,
    timestamp,
    cwd,
    ...(parent ? { parent } : {}),
    importedFrom: {
      agent,
      ...(typeof version === "string" ? { version } : {}),
      id: sourceId,
      digest: source.digest(),
    },
  };
}

/** The first lines of a file, at most 50 of them, parsed; undefined for one that is no JSON. */
export function* firstLines(view: ByteView, most = 50): Generator<{ bytes: Uint8Array; value: unknown }> {
  let seen = 0;
  for (const { bytes } of scanLines(view, { blockSize: 1 << 16 })) {
    if (++seen > most) return;
    const parsed = parseLine(bytes);
    yield { bytes, value: parsed.ok ? parsed.value : undefined };
  }
}

/** The last part of a path, without `.jsonl` and `.zst`. */
export function sourceName(path: string): string {
  return path
    .replace(/^.*[/\\]/, "")
    .replace(/\.zst$/, "")
    .replace(/\.jsonl$/, "");
}

/** Bytes read at a time: lines are mostly read in file order. */
const BLOCK = 1 << 20;

/** Reads lines at any place of a view; lines that follow one another, down or up, cost one read a block. */
export class LineReader {
  readonly #view: ByteView;
  /** Reused: a fresh block for each read costs more than the read. */
  readonly #block: Uint8Array;
  #start = 0;
  #length = 0;

  constructor(view: ByteView) {
    this.#view = view;
    this.#block = new Uint8Array(Math.min(BLOCK, view.size));
  }

  /** The bytes of a line, good until the next call. */
  read(offset: number, length: number): Uint8Array {
    if (length > this.#block.length) return this.#view.read(offset, length);
    if (offset < this.#start || offset + length > this.#start + this.#length) {
      // A reader that asks for a line above the block goes on upwards.
      this.#start = offset < this.#start ? Math.max(0, offset + length - this.#block.length) : offset;
      this.#length = this.#view.readInto(this.#start, this.#block);
    }
    return this.#block.subarray(offset - this.#start, offset - this.#start + length);
  }
}

/** Counts of a session for a report. */
export interface SessionCounts {
  entries: number;
  /** Ends of the tree: as many branches there are. */
  branches: number;
  compactions: number;
}

/** Counts a session as it is written: entries in an order in which parents come first. */
export class CountingEntries implements SessionCounts {
  entries = 0;
  compactions = 0;
  /** Entries that nothing has followed yet: as many as there are branches. */
  readonly #tips = new Set<string>();

  add(entry: Entry): void {
    this.entries++;
    if (entry.type === compaction.type) this.compactions++;
    if (!kindOf(entry).movesLeaf) return;
    if (entry.parentId !== null) this.#tips.delete(entry.parentId);
    this.#tips.add(entry.id);
  }

  get branches(): number {
    return this.#tips.size;
  }
}

/** Counts a session whose rows are known. */
export function countRows(index: RowIndex, area: ScratchArea): SessionCounts {
  /** 1 when an entry below moves the leaf. */
  const isFollowed = area.bytes();
  let branches = 0;
  let compactions = 0;
  for (let row = index.length - 1; row >= 0; row--) {
    const { type, movesLeaf } = entryKinds[index.kind(row)]!;
    if (type === compaction.type) compactions++;
    const followed = isFollowed.get(row) === 1;
    if (movesLeaf && !followed) branches++;
    const parent = index.parent(row);
    if (parent >= 0 && (movesLeaf || followed)) isFollowed.set(parent, 1);
  }
  area.free(isFollowed);
  return { entries: index.length, branches, compactions };
}
