/**
 * What can go wrong above the tree, by name.
 *
 * - `nothing-to-undo`: no navigation, prompt, compaction or hiding to take back
 * - `not-in-context`: an entry that the model does not read at the leaf, where only what it reads will do
 * - `not-text`: a label or name that is no text
 * - `cancelled`: an extension vetoed it; `by` names the extension, `reason` gives its reason
 * - `stale`: the session went on while a summary was made of it
 * - `nothing-to-merge`: the other branch has nothing that is not here
 * - `damaged`: a session in which something is wrong, where only a sound one will do
 * - `bad-input`: what was given cannot be understood
 * - `nested-append`: a handler of an append appends to the session that waits for it
 * - `unknown-command`: no extension registers a command of this name
 * - `command-failed`: a command of an extension failed; `by` names the extension
 * - `settings`: a setting that cannot be used; `key` and `file` say which and where
 */
export type EngineErrorCode =
  | "nothing-to-undo"
  | "cancelled"
  | "stale"
  | "nothing-to-merge"
  | "not-in-context"
  | "not-text"
  | "damaged"
  | "bad-input"
  | "nested-append"
  | "unknown-command"
  | "command-failed"
  | "settings";

/** What an error says besides its code and its sentence; see the fields of {@link EngineError}. */
export interface EngineErrorOptions extends ErrorOptions {
  /** The extension that vetoed it, where one did. */
  by?: string;
  /** Reason of that extension, where it gave one. */
  reason?: string;
  /** The setting that cannot be used, where it is one. */
  key?: string;
  /** The settings file it stands in; absent for the environment, a flag, a program. */
  file?: string;
}

/** The one error class of this package; trouble with a log or an entry is a `SessionTreeError`. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: EngineErrorCode;
  /** The extension that vetoed it. */
  readonly by: string | undefined;
  /** Reason that the extension gave; undefined where it gave none. */
  readonly reason: string | undefined;
  /** The setting. */
  readonly key: string | undefined;
  /** The settings file. */
  readonly file: string | undefined;
  constructor(code: EngineErrorCode, message: string, options: EngineErrorOptions = {}) {
    super(message, options);
    this.code = code;
    this.by = options.by;
    this.reason = options.reason;
    this.key = options.key;
    this.file = options.file;
  }
}

/** The error for an act that an extension vetoed: the same for a compaction, a navigation and a fork. */
export function cancelledBy(
  what: string,
  { by, reason }: { by: string; reason: string | null },
): EngineError {
  const message = `The ${what} was cancelled by ${by}${reason ? `: ${reason}` : "."}`;
  return new EngineError("cancelled", message, { by, ...(reason ? { reason } : {}) });
}

/** The error for a summary that no longer tells all there is to tell. */
export const branchWentOn = () =>
  new EngineError("stale", "The branch went on while it was summarised; nothing was written. Try again.");
