/**
 * What went wrong:
 * - `not-found`, `unreadable-folder`, `syntax-error`, `no-default-export`, `load-failed`, `load-timed-out`,
 *   `foreign-package`: an extension file could not be loaded;
 * - `setup-failed`: its default export threw or took too long;
 * - `missing-member`: an extension uses a member of `api`, `ctx` or a lent module that this host does not have;
 * - `unregistered`: an extension used its api after it had been removed;
 * - `critical-handler-failed`, `aborted`: a run of a hook could not be finished;
 * - `bad-handler`, `bad-hook`, `unknown-hook`: the program around the hooks is wrong.
 */
export type ExtensionErrorCode =
  | "not-found"
  | "unreadable-folder"
  | "syntax-error"
  | "no-default-export"
  | "load-failed"
  | "load-timed-out"
  | "foreign-package"
  | "setup-failed"
  | "missing-member"
  | "unregistered"
  | "critical-handler-failed"
  | "aborted"
  | "bad-handler"
  | "bad-hook"
  | "unknown-hook";

/** The one error of this package. `owner` names the extension it is about, or is null for the program itself. */
export class ExtensionError extends Error {
  override readonly name = "ExtensionError";
  readonly code: ExtensionErrorCode;
  readonly owner: string | null;

  constructor(code: ExtensionErrorCode, message: string, options: { owner?: string; cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.code = code;
    this.owner = options.owner ?? null;
  }
}

/** What a thrown value says in one line; anything can be thrown, also `null`. */
export function describeThrown(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message === "" ? thrown.name : thrown.message;
  if (typeof thrown === "string") return thrown;
  if (typeof thrown === "object" && thrown !== null) return Object.prototype.toString.call(thrown);
  return String(thrown);
}
