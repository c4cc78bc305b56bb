import { SessionTreeError, type SessionTreeErrorCode } from "@espalier/session-tree";
import { PostgresStoreError } from "./postgres-store-error.ts";

/**
 * Runs a call on a session; trouble with the database becomes the session's, as `code`, with the same sentence. What
 * concerns the database as a whole (it is not set up, it does not let us in) stays what it is.
 */
export async function asTroubleOfSession<Result>(
  code: Extract<SessionTreeErrorCode, "write-failed" | "unreadable">,
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    const isSessions =
      error instanceof PostgresStoreError && (error.code === "unreachable" || error.code === "timeout");
    if (!isSessions) throw error;
    throw new SessionTreeError(code, error.message, { cause: error });
  }
}
