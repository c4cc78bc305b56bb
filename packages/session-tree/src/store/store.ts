import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import type { PathWindow } from "../context/window.ts";
import type { SessionHeader, SessionRef } from "../entry/entry.ts";
import type { UpgradedLog } from "./upgrade.ts";

/** Durability of an acknowledged append. `flush` survives the end of the process, `fsync` also a loss of power. */
export type Durability = "flush" | "fsync";

/** Options of an append to a log. */
export interface LineAppendOptions {
  /** Durability when the append is acknowledged. Default `flush`. */
  durability?: Durability;
  /**
   * True to append only if no other writer has appended since the last read of the log (opening,
   * {@link SessionLog.takeIn}, an append). Of several such appends at once, exactly one succeeds. Default false.
   */
  ifUnchanged?: boolean;
}

/** Result of an append to a log. */
export interface LogAppend {
  /** Offset of the first line of this append. */
  offset: number;
  /** Bytes of the lines of this append, including newlines. */
  length: number;
  /** Beginning of all lines since the last read of the log, including this append: `[from, to)` are whole lines. */
  from: number;
  /** End of the known part of the log. Later additions begin here. */
  to: number;
}

/** Mode of opening a log. Reading takes no lease and changes nothing, even in a damaged log. */
export type OpenMode = "read" | "write";

/** The lines of one session: a sequence of bytes that only grows. No method changes or removes a line. */
export interface SessionLog {
  /** Storage name: an absolute path, or a name in another store. `{ file: ref }` opens the log again. */
  readonly ref: string;
  /** Header of the log; undefined when it has none. Its version is the version in which the log was written. */
  readonly header: SessionHeader | undefined;
  /**
   * The bytes of the log; undefined when they cannot be read synchronously. {@link load} makes them available. Grows
   * with the log.
   */
  readonly view: ByteView | undefined;
  /**
   * Set while the log is in an old format: {@link view} has the upgraded bytes, `upgraded.original` the stored ones.
   * Undefined for the current format, and while a log that is elsewhere is not loaded.
   *
   * The first append rewrites the log in the current format. The original is kept under the name `<ref>.v1` or
   * `<ref>.v2`. It can be opened as `{ file }`, is in no list, and is removed with the session.
   */
  readonly upgraded: UpgradedLog | undefined;
  /** Makes all bytes of the log available in {@link view}. Free for files. */
  load(): Promise<ByteView>;
  /** Reads the part of a path's end that a context needs, without the rest of the log. Throws `unknown-entry`. */
  readPath(leafId?: string): Promise<PathWindow>;
  /**
   * Appends lines by one write, and reads them back from the log before it resolves. Lines of other writers since the
   * last read are included.
   *
   * Newlines: a given line contains none. The log adds one `\n` after each line. If the log does not end in a newline
   * (a writer died within a line), it adds one before the first line too, so that only the torn line is lost. The first
   * line of the append begins at `offset`, after such a newline.
   *
   * @throws EspalierError `write-failed`, `changed`, `closed`; the batch does not count then, even if its first lines are in the file. `moved` with
   * `ifUnchanged`; nothing was written then. For the first append to an old format also `exists`, when the name for the
   * original is taken
   */
  append(lines: readonly string[], options?: LineAppendOptions): Promise<LogAppend>;
  /**
   * Reads the lines of other writers since the last read: returns the new bytes `[from, to)`, or null.
   * @throws EspalierError `changed` when another writer has rewritten an old format in the current one: open the log
   * again; `removed` or `changed` when the session was removed
   */
  takeIn(): Promise<{ from: number; to: number } | null>;
  /**
   * Resolves when everything appended so far survives a loss of power. Calls at the same time share the work.
   * @throws EspalierError `sync-failed`, which is final for this opening; `read-only`, `closed`
   */
  flush(): Promise<void>;
  /** Releases the log. Afterwards an append throws `closed`, and other calls may throw it too. */
  close(): Promise<void>;
}

/** A session in a list, read from the first and last lines of its log. */
export interface SessionListing {
  id: string;
  /** Storage name. `{ file: ref }` opens the session. */
  ref: string;
  cwd: string;
  /**
   * Agent from which the session was imported, according to its header: `claude-code`, `codex`, `pi`; null for a
   * session that was not imported.
   */
  importedFrom: string | null;
  /** Current name; null when it has none. */
  name: string | null;
  /** First prompt, shortened, without blocks that an agent added; a slash command without arguments is no prompt. */
  firstMessage: string | null;
  /** Last write of the log, ISO 8601. */
  modified: string;
  /** Timestamp of the last entry, or of the session's creation where that is later, as in a new fork; ISO 8601. */
  updatedAt: string | null;
  /** Timestamp of the last compaction, ISO 8601. */
  lastCompaction: string | null;
  /** Size of the log in bytes. */
  bytes: number;
  /** Session from which this one was forked, or for which it works as a sub-agent. */
  parent: SessionHeader["parent"] | null;
}

/** Options of a list. */
export interface StoreListOptions {
  /** Called for each place that cannot be read, such as a folder without rights. The list continues without it. */
  onSkipped?: (place: string, error: EspalierError) => void;
}

/** Options for taking a lease. */
export interface LeaseOptions {
  /** Milliseconds to wait until the owner releases the lease. Default 0: `busy` at once. */
  waitMs?: number;
}

/** Lease of the only writer of a session. */
export interface SessionLease {
  /** Releases the lease. A second call does nothing. */
  release(): Promise<void>;
}

/** Storage of sessions. Every method is asynchronous, and none changes or removes an entry. */
export interface SessionStore {
  /**
   * Creates a session from a header and whole lines (without newlines), and opens it for writing. The session is
   * durable when the promise resolves. If the store chooses the storage name, the id must be new: of several calls with
   * one id at the same time, exactly one succeeds. With a `ref`, a copy can have the id of another session.
   *
   * @param header the header, or its line, which is kept unchanged
   * @param ref storage name; by default the store chooses one by the id
   * @throws EspalierError `exists` when the `ref` or, without a `ref`, the id is taken; nothing is overwritten or
   * hidden
   */
  create(
    header: SessionHeader | string,
    lines?: Iterable<string | Uint8Array>,
    ref?: string,
  ): Promise<SessionLog>;
  /**
   * Opens a session by its exact id or its storage name.
   * @throws EspalierError `not-found`; `ambiguous` when several sessions have the id and none is stored under it;
   * `empty-file`, `not-a-file`, `unreadable`
   */
  open(ref: SessionRef, mode: OpenMode): Promise<SessionLog>;
  /** Yields all sessions, newest first. */
  list(options?: StoreListOptions): AsyncIterable<SessionListing>;
  /**
   * Takes the lease of a session. Leases are an agreement among writers; they do not prevent appends. The lease of a
   * dead owner does not count.
   * @throws EspalierError `busy` with the `holder`; `not-found`; `write-failed`
   */
  lease(ref: SessionRef, options?: LeaseOptions): Promise<SessionLease>;
  /**
   * Removes a session and the files next to it; returns their names. Throws `not-found`, `ambiguous`; `busy` while its
   * lease is taken.
   */
  delete(ref: SessionRef): Promise<string[]>;
}

/** Opens a log; undefined when the store has no such session. */
export async function openIfThere(
  store: SessionStore,
  ref: SessionRef,
  mode: OpenMode,
): Promise<SessionLog | undefined> {
  try {
    return await store.open(ref, mode);
  } catch (error) {
    if (error instanceof EspalierError && error.code === "not-found") return undefined;
    throw error;
  }
}
