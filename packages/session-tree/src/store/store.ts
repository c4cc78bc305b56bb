import type { ByteView, EspalierError } from "@espalier/jsonl-stream";
import type { PathWindow } from "../context/window.ts";
import type { SessionHeader, SessionRef } from "../entry/entry.ts";
import type { UpgradedLog } from "./upgrade.ts";

/** Durability of an acknowledged append: it survives the end of the process, or also the loss of power. */
export type Durability = "flush" | "fsync";

/** Options of an append to a log. */
export interface LineAppendOptions {
  /** Durability once it is acknowledged. Default `flush`. */
  durability?: Durability;
  /**
   * True: only while no other writer has appended since the last look (opening, {@link SessionLog.takeIn}, an own append). Of
   * several that append so at once, one does. Default false.
   */
  ifUnchanged?: boolean;
}

/** Result of an append to a log. */
export interface LogAppend {
  /** Offset of the first own line. */
  offset: number;
  /** Bytes of the own lines, ends included. */
  length: number;
  /** Everything new since the last look, own lines included: `[from, to)`, whole lines. */
  from: number;
  /** The end of everything known of the log; what comes later begins here. */
  to: number;
}

/** Mode of opening a log. Reading takes no lease and changes nothing, even in a damaged log. */
export type OpenMode = "read" | "write";

/**
 * One session's lines: a sequence of bytes that only ever grows. There is no call that changes or removes a line.
 */
export interface SessionLog {
  /** Storage name, which opens it again as `{ file: ref }`: an absolute path, or a name in another store. */
  readonly ref: string;
  /** The first line, when it is a header; its version is the one the log was written in. */
  readonly header: SessionHeader | undefined;
  /** The bytes, when they can be read without waiting; {@link load} makes it so. Grows with the log. */
  readonly view: ByteView | undefined;
  /**
   * Set while the log is in an old format: {@link view} has the upgraded bytes, `upgraded.original` the stored ones.
   * Undefined for the current format, and where {@link load} has not been awaited and the log is not within reach.
   *
   * The first append brings the log to the current format. What stood there is kept under the name `<ref>.v1` or
   * `<ref>.v2`, which opens as `{ file }` like any other, is in no list, and is removed with the session.
   */
  readonly upgraded: UpgradedLog | undefined;
  /** Brings the whole log within reach of {@link view}. Free for files. */
  load(): Promise<ByteView>;
  /** The end of a path, as much as a context needs, without the rest of the log. Throws `unknown-entry`. */
  readPath(leafId?: string): Promise<PathWindow>;
  /**
   * Appends lines by one write, and finds them in the log before it answers. Taking in what others appended since is
   * part of it.
   *
   * The newline rule: a line comes without its end, and holds none. The log puts one `\n` behind each line, and one
   * before the first where the log does not end in one (a writer died within its line), so that a torn line
   * costs itself alone. An own line begins at `offset`, behind such a newline.
   *
   * @throws EspalierError `write-failed`, `changed`, `closed`; nothing of the batch counts then. With `ifUnchanged`
   *   `moved`, and nothing was written. For the first one to an old format also `exists`, where the name for what stood
   *   there is taken
   */
  append(lines: readonly string[], options?: LineAppendOptions): Promise<LogAppend>;
  /**
   * Takes in what others appended since the last look: the new bytes `[from, to)`, or null.
   * @throws EspalierError `changed` where another writer has brought an old format to the current one: open it again;
   *   `removed` or `changed` where the session was removed
   */
  takeIn(): Promise<{ from: number; to: number } | null>;
  /**
   * Resolves when everything appended so far survives the loss of power; calls at the same time share the work.
   * @throws EspalierError `sync-failed`, which is final for this opening; `read-only`, `closed`
   */
  flush(): Promise<void>;
  /** Releases the log. From then on an append throws `closed`, and other calls may. */
  close(): Promise<void>;
}

/** A session in a list, read from the first and last lines of its log. */
export interface SessionListing {
  id: string;
  /** Storage name: opens it as `{ file: ref }`. */
  ref: string;
  cwd: string;
  /** The agent that it was imported from, as its header says: `claude-code`, `codex`, `pi`; null for one that was not. */
  importedFrom: string | null;
  /** The last name it was given. */
  name: string | null;
  /** Typed text of the first user message that has some, shortened; blocks that an agent put before it are left out. */
  firstMessage: string | null;
  /** Last write of the log, ISO 8601. */
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

/** Options of a list. */
export interface StoreListOptions {
  /** Receives each place that cannot be read, such as a folder without rights; the list continues without it. */
  onSkipped?: (place: string, error: EspalierError) => void;
}

/** For how long one waits for a lease. */
export interface LeaseOptions {
  /** Milliseconds to wait for the owner to release it. Default 0: `busy` at once. */
  waitMs?: number;
}

/** The lease of the one writer of a session. */
export interface SessionLease {
  /** Releases it; a second call does nothing. */
  release(): Promise<void>;
}

/** A place for sessions. Every method is asynchronous; none changes or removes an entry. */
export interface SessionStore {
  /**
   * Makes a session out of a header and whole lines (without ends), durable when it answers, and opens it for writing.
   * @param header the header, or its line, which is kept as it is
   * Where the store chooses what to keep it under, an id is taken once: of several that create one at the same time,
   * exactly one does. Under a `ref` of the caller's a copy may be kept that has the id of another session.
   *
   * @param ref what to keep it under; by default the store chooses by the id
   * @throws EspalierError `exists` for a `ref`, or without one an id, that is taken: nothing is overwritten or hidden
   */
  create(
    header: SessionHeader | string,
    lines?: Iterable<string | Uint8Array>,
    ref?: string,
  ): Promise<SessionLog>;
  /**
   * Opens a session by its exact id, or by what it is kept under.
   * @throws EspalierError `not-found`; `ambiguous` where several have the id, and none is kept under it; `empty-file`, `not-a-file`, `unreadable`
   */
  open(ref: SessionRef, mode: OpenMode): Promise<SessionLog>;
  /** All sessions, newest first. */
  list(options?: StoreListOptions): AsyncIterable<SessionListing>;
  /**
   * Takes the lease of a session: an agreement among its writers, which prevents no append.
   * A lease of a dead owner does not count.
   * @throws EspalierError `busy` with the `holder`; `not-found`; `write-failed`
   */
  lease(ref: SessionRef, options?: LeaseOptions): Promise<SessionLease>;
  /** Removes a session and its files beside it; returns what was removed. Throws `not-found`, `ambiguous`; `busy` while its lease is taken. */
  delete(ref: SessionRef): Promise<string[]>;
}
