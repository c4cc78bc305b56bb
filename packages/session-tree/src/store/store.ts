// Separate from session-tree.ts: each store implements these interfaces, and knows nothing of a session.
import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import type { PathWindow } from "../context/window.ts";
import type { SessionHeader, SessionRef } from "../entry/entry.ts";
import { Tree } from "../tree/tree.ts";
import type { UpgradedLog } from "./upgrade.ts";

/** Durability of an acknowledged append. `flush` survives the end of the process, `fsync` also a loss of power. */
export type Durability = "flush" | "fsync";

/** Options of an append to a log. */
export interface LineAppendOptions {
  /** Durability of the lines when the promise resolves. Default `flush`. */
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
  /**
   * Offset of the first byte since the last read of the log. `[from, to)` are whole lines: those of other writers, and
   * those of this append.
   */
  from: number;
  /** Offset after the last line that was read. Later additions begin here. */
  to: number;
}

/** Mode of opening a log. `read` changes nothing, even in a damaged log. Neither mode takes a lease. */
export type OpenMode = "read" | "write";

/** The lines of one session: a sequence of bytes that only grows. No method changes or removes a line. */
export interface SessionLog {
  /** Storage name: an absolute path, or a name in another store. `{ file: ref }` opens the log again. */
  readonly ref: string;
  /** Header of the log; undefined when the log has none. `version` is the version in which the log was written. */
  readonly header: SessionHeader | undefined;
  /**
   * The bytes of the log as far as they were read, in the current format; undefined when they cannot be read
   * synchronously. {@link load} makes them available. The getter returns a longer view after the log has grown.
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
  /**
   * Reads the part of a path's end that a context needs, without the rest of the log. The path ends in `leafId`;
   * default: the log's own leaf. Throws `unknown-entry`.
   */
  readPath(leafId?: string): Promise<PathWindow>;
  /**
   * Appends lines by one write, and finds them in the log before the promise resolves. `[from, to)` of the result also
   * has the lines of other writers since the last read.
   *
   * Newlines: a line that contains one is refused. The log adds one `\n` after each line. If the log does not end in a
   * newline (a writer died within a line), it adds one before the first line too, so that only the torn line is lost.
   * The first line of the append begins at `offset`, after such a newline.
   *
   * @throws EspalierError `invalid-entry`, `read-only`, `closed`: nothing was written. `write-failed`, `short-write`,
   * `removed`, `changed`: the batch does not count, even if its first lines are in the log. `sync-failed`: the lines may
   * not survive a loss of power. With `ifUnchanged` also `moved`: nothing was written; in files also `busy` after 10 s
   * behind other such appends. For the first append to an old format also `exists`, when the name for the original is
   * taken, and `busy`
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
  /** Id in the header; empty when the log has no header. */
  id: string;
  /** Storage name. `{ file: ref }` opens the session. */
  ref: string;
  /** Working folder of the agent; empty when the header has none. */
  cwd: string;
  /**
   * Agent from which the session was imported, according to its header: `claude-code`, `codex`, `pi`; null for a
   * session that was not imported.
   */
  importedFrom: string | null;
  /** Current name of the session; null when it has none. */
  name: string | null;
  /**
   * First prompt, cut to 200 characters, without blocks that an agent added. A slash command without arguments is no
   * prompt. Null when the first 256 KiB of the log have no prompt.
   */
  firstMessage: string | null;
  /** Last write of the log, ISO 8601. */
  modified: string;
  /**
   * Timestamp of the last entry that has one, or of the session's creation when that is later (as in a new fork) or no
   * entry has one; ISO 8601. Null when the creation has none either.
   */
  updatedAt: string | null;
  /** Timestamp of the last compaction in file order that has one, ISO 8601; null when there is none. */
  lastCompaction: string | null;
  /** Stored size of the log in bytes. */
  bytes: number;
  /** Session from which this one was forked, or for which it works as a sub-agent; null when the header names none. */
  parent: SessionHeader["parent"] | null;
}

/** Options of a list. */
export interface StoreListOptions {
  /**
   * Called for each file or folder that cannot be read; the list continues without it. Default: such places are skipped
   * silently. A folder that the store was told to list is skipped only when there are several and this function is
   * given; otherwise the list throws.
   */
  onSkipped?: (place: string, error: EspalierError) => void;
}

/** Options for taking a lease. */
export interface LeaseOptions {
  /** Maximum milliseconds to wait until the owner releases the lease, then `busy`. Default 0: `busy` at once. */
  waitMs?: number;
}

/** Lease of a session: its holder is the only writer. */
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
   * @throws EspalierError `exists` when the `ref` or, without a `ref`, the id is taken: nothing is overwritten or
   * hidden. `invalid-entry` for a header that is not one, or an id that cannot be a storage name. `write-failed`
   */
  create(
    header: SessionHeader | string,
    lines?: Iterable<string | Uint8Array>,
    ref?: string,
  ): Promise<SessionLog>;
  /**
   * Opens a session by its exact id or its storage name.
   * @throws EspalierError `not-found`; `ambiguous` when several sessions have the id and none is stored under it;
   * `empty-file`, `not-a-file`, `unreadable`; for writing also `not-ours`, `read-only`
   */
  open(ref: SessionRef, mode: OpenMode): Promise<SessionLog>;
  /** Yields all sessions, the last written first. Logs without a header and an entry are left out. */
  list(options?: StoreListOptions): AsyncIterable<SessionListing>;
  /**
   * Takes the lease of a session. Leases are an agreement among writers; they do not prevent appends. The lease of a
   * dead owner does not count.
   * @throws EspalierError `busy` with the `holder`; `write-failed`; the errors of {@link open}, such as `not-found`
   */
  lease(ref: SessionRef, options?: LeaseOptions): Promise<SessionLease>;
  /**
   * Removes a session and what belongs to it, such as the original of an old format; returns the names of what was
   * removed.
   * @throws EspalierError `not-found`, `ambiguous`; `busy` while its lease is taken; `write-failed`; in files also
   * `not-a-session`
   */
  delete(ref: SessionRef): Promise<string[]>;
}

/** Opens a log; undefined when the store has no such session. All other errors of `open` are thrown. */
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

/**
 * Reads the end of the path at which a session opens: at the log's leaf, or at `leafId`.
 * @throws EspalierError `not-a-session` when no line of the log is usable, `unknown-entry`
 */
export async function openWindow(log: SessionLog, leafId?: string): Promise<PathWindow> {
  const window = await log.readPath(leafId);
  if (log.header || window.leafId !== null || new Tree(await log.load()).length > 0) return window;
  throw new EspalierError(
    "not-a-session",
    `${log.ref} has no line that is a session header or an entry; is it a session file?`,
  );
}
