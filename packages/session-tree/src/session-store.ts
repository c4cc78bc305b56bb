import type { ByteView } from "@espalier/jsonl-stream";
import type { PathWindow } from "./path-window.ts";
import type { SessionHeader } from "./session-header.ts";
import type { SessionTreeError } from "./session-tree-error.ts";
import type { UpgradedLog } from "./upgrade.ts";

/** What an acknowledged append survives: the end of the process, or also the loss of power. */
export type Durability = "flush" | "fsync";

/** What an append did to the log. */
export interface LogAppend {
  /** Where the first own line begins. */
  offset: number;
  /** Bytes of the own lines, ends included. */
  length: number;
  /** Everything new since the last look, own lines included: `[from, to)`, whole lines. */
  from: number;
  /** The end of everything known of the log; what comes later begins here. */
  to: number;
}

/** How to open a log. Reading takes no lease and changes nothing, whatever state the log is in. */
export type OpenMode = "read" | "write";

/**
 * One session's lines: a sequence of bytes that only ever grows. There is no call that changes or removes a line.
 */
export interface SessionLog {
  /** What opens this log again: an absolute path, or an address. */
  readonly ref: string;
  /** The first line, when it is a header; its version is the one the log was written in. */
  readonly header: SessionHeader | undefined;
  /** The bytes, when they can be read without waiting; {@link load} makes it so. Grows with the log. */
  readonly view: ByteView | undefined;
  /**
   * Set while the log stands in an old format: {@link view} is what it reads as, `upgraded.original` what stands there.
   * Undefined for the current format, and where {@link load} has not been awaited and the log is not within reach.
   *
   * The first append brings the log to the current format. What stood there is kept under the name `<ref>.v1` or
   * `<ref>.v2`, which opens like any other, is in no list, and is removed with the session.
   */
  readonly upgraded: UpgradedLog | undefined;
  /** Brings the whole log within reach of {@link view}. Free for files. */
  load(): Promise<ByteView>;
  /** The end of a path, as much as a context needs, without the rest of the log. Throws `unknown-entry`. */
  readPath(leafId?: string): Promise<PathWindow>;
  /**
   * Appends lines (without ends) by one write, and finds them in the log before it answers. Taking in what others
   * appended since is part of it.
   * @throws SessionTreeError `write-failed`, `changed`, `closed`; nothing of the batch counts then. For the first one to
   *   an old format also `exists`, where the name for what stood there is taken
   */
  append(lines: readonly string[], options?: { durability?: Durability }): Promise<LogAppend>;
  /**
   * Takes in what others appended since the last look: the new bytes `[from, to)`, or null.
   * @throws SessionTreeError `changed` where somebody else has brought an old format to the current one: open it again
   */
  takeIn(): Promise<{ from: number; to: number } | null>;
  /**
   * Answers when everything appended so far survives the loss of power; who asks at the same time shares the work.
   * @throws SessionTreeError `sync-failed`, which is final for this opening; `read-only`, `closed`
   */
  flush(): Promise<void>;
  /** Gives the log back. An append throws `closed` from then on, and whatever else is asked of it may. */
  close(): Promise<void>;
}

/** A session as a list shows it, told from the first and last lines of its log. */
export interface SessionListing {
  id: string;
  /** What opens it. */
  ref: string;
  cwd: string;
  /** The last name it was given. */
  name: string | null;
  /** The first user message, shortened. */
  firstMessage: string | null;
  /** When the log was last written, ISO 8601. */
  modified: string;
  /** Timestamp of the last entry, ISO 8601. */
  updatedAt: string | null;
  /** Timestamp of the last compaction, ISO 8601. */
  lastCompaction: string | null;
  /** Size of the log. */
  bytes: number;
  /** The session this one was forked from or works for. */
  parent: SessionHeader["parent"] | null;
}

/** How a store is listed. */
export interface StoreListOptions {
  /** Receives each place that cannot be read, such as a folder without rights; the list goes on without it. */
  onSkipped?: (place: string, error: SessionTreeError) => void;
}

/** For how long one waits for a lease. */
export interface LeaseOptions {
  /**
   * Milliseconds to wait for an owner who waits himself, that is, for one that holds it as briefly as we do. Default 0:
   * we hold it for long, and nobody shall wait for us.
   */
  waitMs?: number;
}

/** The right to be told apart as the one who writes a session. */
export interface SessionLease {
  /** Gives it back; a second call does nothing. */
  release(): Promise<void>;
}

/** Where sessions are kept. Every method is asynchronous; none changes or removes an entry. */
export interface SessionStore {
  /**
   * Makes a session out of a header and whole lines (without ends), durable when it answers, and opens it for writing.
   * @param header the header, or its line, which is kept as it is
   * @param ref where to keep it; by default the store chooses
   * @throws SessionTreeError `exists`: nothing is ever overwritten
   */
  create(
    header: SessionHeader | string,
    lines?: Iterable<string | Uint8Array>,
    ref?: string,
  ): Promise<SessionLog>;
  /** Opens by what a listing, a path or an id says. Throws `not-found`, `empty-file`, `not-a-file`, `unreadable`. */
  open(ref: string, mode: OpenMode): Promise<SessionLog>;
  /** All sessions, newest first. */
  list(options?: StoreListOptions): AsyncIterable<SessionListing>;
  /**
   * Takes the lease of a session: a courtesy among those who write it for a while, which keeps nobody from appending.
   * What a dead owner left behind counts for nothing.
   * @throws SessionTreeError `busy` with the `holder`; `not-found`; `write-failed`
   */
  lease(ref: string, options?: LeaseOptions): Promise<SessionLease>;
  /** Removes a session and all that lies beside it; returns what was removed. Throws `not-found`; `busy` while somebody has its lease. */
  delete(ref: string): Promise<string[]>;
}
