import type { Entry, SessionHeader } from "@espalier/session-tree";
import type { ImportIssues } from "./import-issue.ts";
import type { SourceFile } from "./import-source.ts";
import type { ScratchSpace } from "./scratch/scratch-space.ts";
import type { SessionCounts } from "./session-counts.ts";

/** What an earlier import made of a message. */
export interface KnownEntry {
  /** Out of how many lines of the source. */
  lines: number;
  /** Whether it says what it cost. */
  isBilled: boolean;
}

/** What reading has to know of an earlier import, so that a second one gives the same entries. */
export interface DraftOptions {
  /** An entry that is in the session already; what was written of it since becomes an entry of its own. */
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
  /** The session's id there: what it is found by when it is imported again. */
  readonly sourceId: string;
  /** The id that the session gets here, unless another one has it. */
  readonly sessionId: string;
  /** The folder in which the agent worked; empty where the source does not say. */
  readonly cwd: string;
  readonly source: SourceFile;
  /** What is noticed; complete when all entries have been read. */
  readonly issues: ImportIssues;
  /** Lines of the source that are about this session, blank ones aside. Complete when all entries have been read. */
  readonly lines: number;
  /** Where the source stands; null before the first entry, undefined until all entries have been read. */
  readonly leafId: string | null | undefined;
  /** What is in lines that are copied; complete with them. Undefined where entries are made, who writes them counts. */
  readonly counts?: SessionCounts | undefined;
  /** The session's first line. May read a good deal, of other files too: to be asked for when it is needed. */
  header(): SessionHeader;
  /**
   * The entries, parents before their children; bytes are a line to be copied as it is. The same each time, but call it
   * again only after it came to its end.
   */
  entries(options?: DraftOptions): Generator<Entry | Uint8Array, void>;
  /** Whether another file tells of the same session, and of this entry in it. */
  isElsewhere(id: string): boolean;
}

/** Reads the sessions of one agent. Made for one run: it may remember what it met. */
export interface SessionImporter {
  /** As it stands in `importedFrom`. */
  readonly agent: string;
  /** Whether a file of which this is the first line that can be read belongs to the agent. */
  recognises(firstLine: unknown): boolean;
  /**
   * The sessions in a file: usually one. Reads little until they are asked for their entries, which must all have been
   * read, if they are to be, before another file is.
   */
  read(source: SourceFile): Iterable<SessionDraft>;
}

/** The files among which a file stands: sessions go on in others, begin in others, and have sub-agents in others. */
export interface Surroundings {
  /** Paths of the agent's session files, the oldest first. */
  readonly files: readonly string[];
  /** Undefined when there is no such file, or it cannot be read. */
  open(path: string): SourceFile | undefined;
  /** Room for what is kept of each line; default: memory. */
  readonly scratch?: ScratchSpace;
}

/** A file that stands alone. */
export const ALONE: Surroundings = { files: [], open: () => undefined };
