import { JsonlError } from "@espalier/jsonl-stream";
import { SessionTreeError, type SessionTreeErrorCode } from "./session-tree-error.ts";

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
