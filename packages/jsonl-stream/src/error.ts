/**
 * Problem with a file of lines or a log.
 *
 * - `not-json`: a value to write is not JSON: a function, NaN, a Date, an own `__proto__`, …; the message names its key
 *   path
 * - `too-deep`: a value to write nests deeper than the limit (default: 256 levels)
 * - `line-too-long`: a line to write is longer than the limit (default: 16 MiB)
 * - `not-found`: there is no file, folder or session with this name
 * - `not-a-file`: a folder, symbolic link, FIFO, socket or device where a regular file is expected
 * - `not-ours`: the file to write belongs to another user
 * - `unreadable`: opening or reading failed for another reason, see `cause`
 * - `read-only`: a write to a log that was opened for reading, or that may not be written
 * - `removed`: the path no longer leads to a file
 * - `changed`: another file has the path, or the file was rewritten in place; nothing was written
 * - `shrunk`: the file is shorter than the part that was read before
 * - `short-write`: fewer bytes than requested were written: the disk is full or a size limit is reached; not appended
 * - `write-failed`: the write failed, see `cause`, or its lines were not found in the file afterwards; not appended.
 *   With a database whose connection was lost, the message says when the lines may have been written all the same
 * - `sync-failed`: a sync failed: lines written since the last sync may not survive a power failure; open the file
 *   again
 * - `queue-full`: writing fails, and the queue that keeps appends until it works again is full; not appended
 * - `exists`: a file or session to create already exists; it was not changed
 * - `closed`: the file, session or store was closed
 * - `busy`: another process or opening writes the session, or a run is active; `holder` has its identity
 * - `no-room`: the folder for temporary files has no room for the data of an import
 */
export type LogErrorCode =
  | "not-json"
  | "too-deep"
  | "line-too-long"
  | "not-found"
  | "not-a-file"
  | "not-ours"
  | "unreadable"
  | "read-only"
  | "removed"
  | "changed"
  | "shrunk"
  | "short-write"
  | "write-failed"
  | "sync-failed"
  | "queue-full"
  | "exists"
  | "closed"
  | "busy"
  | "no-room";

/**
 * Problem with a session, its entries or its tree.
 *
 * - `unknown-entry`: an id that is not in the log; the message names similar ones
 * - `unknown-parent`: an entry to append names a parent that is not in the log
 * - `duplicate-id`: an entry to append has an id that another entry has
 * - `invalid-entry`: an entry to append does not have the shape of its kind, or has a value that is not JSON; a line to
 *   write has a newline; a header to write is not one, or its id cannot be part of a file name
 * - `bad-kind`: a kind of entry that cannot be registered
 * - `off-path`: an edit or a first kept entry that is not on the path
 * - `no-header`, `version`: a log that can be read and must not be written
 * - `empty-file`, `not-a-session`: the file is empty, or none of its lines is a header or an entry
 * - `ambiguous`: several sessions have the same id; the message names them
 * - `moved`: an append that required a certain leaf, or a log without new lines, and the log has changed; nothing was
 *   written
 * - `not-loaded`: the store has not read the whole log into memory yet
 * - `empty-context`: the context has nothing to send
 * - `bad-tool`: a tool whose schema no model would read
 * - `nothing-to-redo`: the last action is not an undo
 * - `nothing-to-undo`: there is no action of a user to undo
 * - `nothing-to-merge`: the other branch has no content that this branch lacks
 * - `not-in-context`: an entry is required that the model reads at the leaf, and the given one is not
 * - `unknown-rule`: a rule that does not apply at the leaf
 * - `not-text`: a label, name or rule that is not text
 * - `cancelled`: an extension vetoed the action; `by` names the extension, `reason` has its reason
 * - `stale`: the session changed while a summary of it was made, or an `expected` action is no longer the newest one
 * - `damaged`: a damaged session where an undamaged one is required
 * - `bad-input`: input that cannot be understood
 * - `nested-append`: a handler of an append appends to the same session, which waits for the handler
 * - `unknown-command`: no extension registers a command of this name
 * - `command-failed`: a command of an extension failed; `by` names the extension
 * - `settings`: a setting that cannot be used; `key` or `keys`, and `file`, name the setting and its file
 */
export type SessionErrorCode =
  | "unknown-entry"
  | "unknown-parent"
  | "duplicate-id"
  | "invalid-entry"
  | "bad-kind"
  | "off-path"
  | "no-header"
  | "version"
  | "empty-file"
  | "not-a-session"
  | "ambiguous"
  | "moved"
  | "not-loaded"
  | "empty-context"
  | "bad-tool"
  | "nothing-to-redo"
  | "nothing-to-undo"
  | "nothing-to-merge"
  | "not-in-context"
  | "unknown-rule"
  | "not-text"
  | "cancelled"
  | "stale"
  | "damaged"
  | "bad-input"
  | "nested-append"
  | "unknown-command"
  | "command-failed"
  | "settings";

/**
 * Reason for a missing summary. An error with one of these codes that concerns a summary has `attempts`.
 *
 * - `overloaded`, `rate-limited`, `connection`, `timeout`: temporary; a retry may succeed
 * - `too-long`: the request does not fit the model's window
 * - `unauthorized`, `bad-request`: a retry gets the same answer
 * - `empty`, `cut-off`, `refused`, `tool-call`: the answer cannot be used as a summary
 * - `aborted`: the caller's signal
 * - `failed`: any other reason
 */
export type SummaryErrorCode =
  | "overloaded"
  | "rate-limited"
  | "connection"
  | "timeout"
  | "too-long"
  | "unauthorized"
  | "bad-request"
  | "empty"
  | "cut-off"
  | "refused"
  | "tool-call"
  | "aborted"
  | "failed";

/**
 * Reason for a missing compaction, or for a missing answer of a run.
 *
 * - `no-smaller`: the context would not shrink
 * - `irreducible`: system prompt, tools and the newest user message alone exceed the window; `breakdown` has the tokens
 *   of each
 * - `already-running`: another compaction is running
 * - `exhausted`: two automatic compactions in a row without an answer of the model
 * - `over-window`: the request is larger than the model's window, and no remedy helped
 * - `over-bytes`: the request has more bytes than its provider accepts, and no remedy helped; `breakdown` has the bytes
 *   of each part
 * - `over-budget`: the session, including the next request, would cost more than its `maxCost`
 * - `auto-off`: the model's window overflowed and automatic compaction is off
 * - `no-storage`: results are to be moved to files, and no folder for them is configured
 * - `max-iterations`: the model requested tools too many times in a row; the results are in the session
 * - `overflow`: the request was too long for the model, even after a compaction; `breakdown` has the parts that cannot
 *   shrink
 */
export type CompactionErrorCode =
  | "no-smaller"
  | "irreducible"
  | "already-running"
  | "exhausted"
  | "over-window"
  | "over-bytes"
  | "over-budget"
  | "auto-off"
  | "no-storage"
  | "max-iterations"
  | "overflow";

/**
 * Problem between a program and its database, or another package that it needs.
 *
 * - `address`: an address that cannot be understood
 * - `not-installed`: an optional package is missing, such as `pg`; the message names the command that installs it
 * - `not-migrated`: the database does not have the tables this program needs; `espalier store migrate` creates them
 * - `newer`: the tables belong to a newer program
 * - `unsuitable`: a server that is too old, or has another encoding than UTF-8; a framework of a version that its
 *   adapter was not tested with
 * - `refused`: the server refuses the connection or a statement; `sqlState` has its error code
 * - `unreachable`: the connection failed or was lost: the statement may have run or not
 * - `timeout`: a statement took too long and was rolled back
 */
export type DatabaseErrorCode =
  | "address"
  | "not-installed"
  | "not-migrated"
  | "newer"
  | "unsuitable"
  | "refused"
  | "unreachable"
  | "timeout";

/** Every `code` of an {@link EspalierError}. Codes are stable, and the command line prints them with `--json`. */
export type EspalierErrorCode =
  | LogErrorCode
  | SessionErrorCode
  | SummaryErrorCode
  | CompactionErrorCode
  | DatabaseErrorCode;

/** Identity of the process that writes a session. */
export interface LeaseHolder {
  /** Process id on `host`; 0 for another opening in this process, in a store that only this process uses. */
  pid: number;
  /** Name of the machine. */
  host: string;
  /** Start of the lease, ISO 8601, UTC; empty when the lease does not have one. */
  since: string;
}

/** Usage billed for one model call. Counts are in tokens, `cost` is in US dollars. */
export interface Usage {
  /** Tokens of the prompt that did not come from the provider's cache. */
  input: number;
  /** Tokens of the answer, thinking included. */
  output: number;
  /** Tokens of the prompt that were read from the cache. */
  cacheRead: number;
  /** Tokens of the prompt that were written to the cache. */
  cacheWrite: number;
  /** Sum of the four counts; absent when the provider gave no sum. */
  totalTokens?: number;
  /** US dollars; absent when the prices were unknown. */
  cost?: Partial<Record<"input" | "output" | "cacheRead" | "cacheWrite" | "total", number>>;
}

/** A request for a summary that failed. */
export interface FailedAttempt {
  /** Name of the summarizer. */
  name: string;
  code: SummaryErrorCode;
  message: string;
  /** Billed tokens; absent when none were billed, or the provider did not report them. */
  usage?: Usage;
}

/** Options of an {@link EspalierError}: its cause, and the fields that belong to its code. */
export type EspalierErrorOptions = ErrorOptions & Partial<Omit<EspalierError, keyof Error | "code">>;

/**
 * Error of every package except `@espalier/extensions`, which has `ExtensionError`: a stable `code` for programs, and a
 * message for people that names the cure. Messages never quote the content of a session.
 */
export class EspalierError extends Error {
  override readonly name: string = "EspalierError";
  readonly code: EspalierErrorCode;
  /** With `busy`: the process that writes the session. */
  declare readonly holder?: LeaseHolder | undefined;
  /**
   * With `moved`: the current leaf; null before the first entry. Absent when the append required a log without new
   * lines, not a leaf.
   */
  declare readonly leafId?: string | null | undefined;
  /** Extension that vetoed the action or failed. */
  declare readonly by?: string | undefined;
  /** With `cancelled`: the extension's reason for its veto; absent when it gave none. */
  declare readonly reason?: string | undefined;
  /** Name of the setting. */
  declare readonly key?: string | undefined;
  /** Names of the settings that contradict each other. */
  declare readonly keys?: readonly string[] | undefined;
  /** Settings file; absent for the environment, a flag or a program. */
  declare readonly file?: string | undefined;
  /** Size of each part that cannot shrink, in tokens; in bytes for `over-bytes`. */
  declare readonly breakdown?: Readonly<Record<string, number>> | undefined;
  /** Tokens that were billed in all attempts although no result was kept. */
  declare readonly usage?: Usage | undefined;
  /** Requests for a summary that failed, oldest first; defined for every error of a summary. */
  declare readonly attempts?: readonly FailedAttempt[] | undefined;
  /** Pause that the provider requests, in milliseconds. */
  declare readonly retryAfterMs?: number | undefined;
  /** Error code of PostgreSQL, five characters. */
  declare readonly sqlState?: string | undefined;
  /** Constraint of a table that was violated. */
  declare readonly constraint?: string | undefined;

  constructor(code: EspalierErrorCode, message: string, { cause, ...facts }: EspalierErrorOptions = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    Object.assign(this, facts);
  }
}
