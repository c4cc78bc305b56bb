import { JsonlError } from "@espalier/jsonl-stream";

/** Who writes a session. */
export interface LeaseHolder {
  /** Of its process, on `host`. */
  pid: number;
  host: string;
  /** Since when, ISO 8601, UTC; empty where the lease does not say. */
  since: string;
}

/**
 * What can go wrong, by name. `code` is stable and is what the command line prints with `--json`.
 *
 * - `unknown-entry`: an id that is not in the log (the message names near ones)
 * - `unknown-parent`: an entry to append names a parent that is not in the log
 * - `duplicate-id`: an entry to append has an id that is taken
 * - `invalid-entry`: an entry to append has not the shape of its kind, or holds what is not JSON
 * - `bad-kind`: a kind of entry that cannot be registered
 * - `off-path`: an edit or a first kept entry that is not on the path
 * - `no-header`, `version`: a log that can be read, and must not be written
 * - `empty-file`, `not-a-session`: nothing usable in the log
 * - `not-found`, `not-a-file`, `unreadable`, `exists`: the log itself
 * - `ambiguous`: several files have the id of a session; the message names them
 * - `moved`: an append that was for one leaf alone, and the log has another one by now; nothing was written
 * - `not-loaded`: the store has not brought the whole log into memory yet
 * - `empty-context`: nothing to send
 * - `bad-tool`: a tool to declare whose schema no model would read
 * - `removed`, `changed`, `shrunk`: the log is no longer what was read; nothing was written
 * - `short-write`, `write-failed`, `sync-failed`: the append does not count
 * - `queue-full`: the append does not count, and there is no room to keep it until writing works again
 * - `closed`, `read-only`, `not-ours`: the log cannot be written by this opening
 * - `busy`: somebody else writes the session; `holder` says who, and since when
 */
export type SessionTreeErrorCode =
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
  | "not-found"
  | "not-a-file"
  | "unreadable"
  | "exists"
  | "ambiguous"
  | "moved"
  | "not-loaded"
  | "empty-context"
  | "bad-tool"
  | "closed"
  | "busy"
  | "read-only"
  | "not-ours"
  | "removed"
  | "changed"
  | "shrunk"
  | "short-write"
  | "write-failed"
  | "sync-failed"
  | "queue-full";

/** The one error class of this package: a `code` for programs, a sentence with the cure for people. */
export class SessionTreeError extends Error {
  override readonly name = "SessionTreeError";
  readonly code: SessionTreeErrorCode;
  /** With `busy`: who writes the session. */
  readonly holder: LeaseHolder | undefined;
  /** With `moved`, from a session: the leaf that the log has now; null before the first entry. */
  readonly leafId: string | null | undefined;
  constructor(
    code: SessionTreeErrorCode,
    message: string,
    options: ErrorOptions & { holder?: LeaseHolder; leafId?: string | null } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.holder = options.holder;
    this.leafId = options.leafId;
  }
}

/** Errors of a line file that mean something else to who opens a session. */
const CODES: Partial<Record<JsonlError["code"], SessionTreeErrorCode>> = {
  "not-json": "invalid-entry",
  "too-deep": "invalid-entry",
  "line-too-long": "invalid-entry",
};

/** Runs calls on lines or a line file; what they throw becomes this package's error, with the same sentence. */
export function withLogErrors<Result>(run: () => Result): Result {
  try {
    return run();
  } catch (cause) {
    throw asSessionError(cause);
  }
}

/** As {@link withLogErrors}, for what a promise is rejected with. */
export async function withAsyncLogErrors<Result>(run: () => Promise<Result>): Promise<Result> {
  try {
    return await run();
  } catch (cause) {
    throw asSessionError(cause);
  }
}

/** The error of an append that was only for a log as it was seen. */
export const grown = (ref: string): SessionTreeError =>
  new SessionTreeError(
    "moved",
    `Somebody else appended to ${ref} meanwhile; nothing was written. Look, and try again.`,
  );

function asSessionError(cause: unknown): unknown {
  if (!(cause instanceof JsonlError)) return cause;
  const code = CODES[cause.code] ?? (cause.code as SessionTreeErrorCode);
  return new SessionTreeError(code, cause.message, { cause });
}
