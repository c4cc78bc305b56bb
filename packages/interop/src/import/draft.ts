import { type ByteView, parseLine, salvageLine, scanLines } from "@espalier/jsonl-stream";
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
  /** Number of lines of the source from which the entry was made. */
  lines: number;
  /** True if the entry has token usage. */
  isBilled: boolean;
}

/** Results of an earlier import, with which a second import makes the same entries. */
export interface DraftOptions {
  /**
   * Returns an entry that is already in the session; undefined for a new id. Lines that the source added to the entry
   * since then become a separate entry.
   */
  known?(id: string): KnownEntry | undefined;
  /** Readable summaries, by entry id, that replace those that only their provider can read. */
  summaries?: ReadonlyMap<string, string>;
}

/**
 * A session in the form that an importer gives it; nothing is written. Drafts of one file follow one another: take the
 * next one only when the entries of the previous one have all been read, or will never be read.
 */
export interface SessionDraft {
  readonly agent: string;
  /** Id of the session in the source, by which it is found when it is imported again. */
  readonly sourceId: string;
  /** Id that the session gets, unless another session has it. */
  readonly sessionId: string;
  /** Working folder of the agent; empty when the source does not name it. */
  readonly cwd: string;
  readonly source: SourceFile;
  /** Issues; complete when all entries have been read. */
  readonly issues: ImportIssues;
  /** Leaf of the source; null before the first entry, undefined until all entries have been read. */
  readonly leafId: string | null | undefined;
  /** Counts of copied lines; complete with them. Undefined for converted entries, which the writer counts. */
  readonly counts?: SessionCounts | undefined;
  /** Returns the session's first line. May read much of this and other files: call it only when it is needed. */
  header(): SessionHeader;
  /**
   * Yields the entries, parents before their children; bytes are a line to copy unchanged. The result is the same each
   * time for the same options, but call it again only after it has ended.
   */
  entries(options?: DraftOptions): Generator<Entry | Uint8Array, void>;
  /** Returns whether another file has an entry with this id in the same session. Default: a session has one file. */
  isElsewhere?(id: string): boolean;
}

/** Reads the sessions of one agent. Made for one import: it may keep facts of the files that it read. */
export interface SessionImporter {
  /** Name of the agent, as recorded in `importedFrom`. */
  readonly agent: string;
  /** Returns whether a file with this first readable line belongs to the agent. */
  recognises(firstLine: unknown): boolean;
  /**
   * Returns the sessions in a file, usually one. Reads little before their entries are requested. Read all entries that
   * you need before you read another file.
   */
  read(source: SourceFile): Iterable<SessionDraft>;
}

/** An agent whose sessions can be read. */
export interface OtherAgent {
  /** Name in commands, and in `importedFrom` of a session. */
  readonly agent: string;
  /** Name for people. */
  readonly title: string;
  /**
   * True: its files have a format of their own, and its sessions are listed after an import. False: its files have the
   * session format, and are opened where they are.
   */
  readonly isConverted: boolean;
}

/**
 * Agents whose sessions can be read, in the order of lists. Choices, help and titles of the command and the viewer come
 * from here; folders and importers are in `PLACES` (`../node/local-agents.ts`).
 */
export const otherAgents = [
  { agent: "claude-code", title: "Claude Code", isConverted: true },
  { agent: "codex", title: "Codex", isConverted: true },
  { agent: "pi", title: "Pi", isConverted: false },
] as const satisfies readonly OtherAgent[];

/** Names of all agents of which a session can be; `espalier` is this program. */
export const agentNames: readonly string[] = ["espalier", ...otherAgents.map(({ agent }) => agent)];

/** Returns the name of an agent for people: that of an unknown agent unchanged. */
export function agentTitle(name: string): string {
  if (name === "espalier") return "Espalier";
  return otherAgents.find(({ agent }) => agent === name)?.title ?? name;
}

/** Other files of the agent: sessions can continue in them, begin in them, and have sub-agents in them. */
export interface SiblingFiles {
  /** Paths of the agent's session files, the oldest first. */
  readonly files: readonly string[];
  /** Opens a file; undefined when it is missing or cannot be read. */
  open(path: string): SourceFile | undefined;
  /** Scratch space for the columns of lines. Default: memory. */
  readonly scratch?: ScratchSpace;
}

/** For a file that needs no other file. */
export const NO_SIBLINGS: SiblingFiles = { files: [], open: () => undefined };

/** A file of another agent, opened. */
export interface SourceFile {
  /** Path of the file, or its name without a path (a file dropped onto a page). */
  path: string;
  view: ByteView;
  /** Returns the SHA-256 of the file's bytes in hex; called when a header is made, and to compare with an earlier import. */
  digest(): string;
}

/** Makes the first line of a session from a source, without `version` and `parent` if they are undefined. */
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

/** Messages about torn and damaged lines. */
export const LINE_ISSUES = {
  salvaged: "A line was cut off; the whole line after it was read.",
  "bad-line": "A line is damaged and cannot be read.",
  "torn-line": "The last line was cut off while it was written.",
} as const;

/** A line of a source file, parsed as a line of the agent. */
interface SourceLine<Of> {
  /** Undefined if the line cannot be read. */
  line: Of | undefined;
  /** Number of bytes before the line, which belong to a torn line. */
  skipped: number;
  issue?: keyof typeof LINE_ISSUES;
}

/**
 * Reads a line. If it is the beginning of a torn line with a whole line after it, reads the whole one. A blank line has
 * no issue.
 *
 * @param read converts a parsed value to a line of the agent; undefined for any other value
 */
export function readSourceLine<Of>(
  bytes: Uint8Array,
  terminated: boolean,
  read: (value: unknown) => Of | undefined,
): SourceLine<Of> {
  const parsed = parseLine(bytes);
  const salvaged = parsed.ok || !terminated ? undefined : salvageLine(bytes, '{"');
  const line = read(parsed.ok ? parsed.value : salvaged?.value);
  if (!line && !parsed.ok && parsed.problem.kind === "blank") return { line, skipped: 0 };
  if (!line) return { line, skipped: 0, issue: terminated || parsed.ok ? "bad-line" : "torn-line" };
  return salvaged ? { line, skipped: salvaged.start, issue: "salvaged" } : { line, skipped: 0 };
}

/**
 * Yields the first lines of a file, at most `most` (default: 50), each with its parsed value; undefined for a line that
 * is not JSON.
 */
export function* firstLines(view: ByteView, most = 50): Generator<{ bytes: Uint8Array; value: unknown }> {
  let seen = 0;
  for (const { bytes } of scanLines(view, { blockSize: 1 << 16 })) {
    if (++seen > most) return;
    const parsed = parseLine(bytes);
    yield { bytes, value: parsed.ok ? parsed.value : undefined };
  }
}

/** Returns the last part of a path, without `.jsonl` and `.zst`. */
export function sourceName(path: string): string {
  return path.replace(/^.*[/\\]/, "").replace(/(?:\.jsonl)?(?:\.zst)?$/, "");
}

/** Counts of a session for a report. */
export interface SessionCounts {
  entries: number;
  /** Number of ends of the tree, which equals the number of branches. */
  branches: number;
  compactions: number;
}

/** Counts a session while it is written; parents come before their children. */
export class CountingEntries implements SessionCounts {
  entries = 0;
  compactions = 0;
  /** Entries without a child so far; their number is the number of branches. */
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
  const isFollowed = area.column(Uint8Array);
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
  return { entries: index.length, branches, compactions };
}
