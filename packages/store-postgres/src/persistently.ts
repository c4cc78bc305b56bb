import type { Database } from "./database.ts";
import { isTlsTrouble } from "./database-errors.ts";
import { PostgresStoreError } from "./postgres-store-error.ts";

/** Milliseconds until the next attempt: doubled each time, up to the longest. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 1_000;

/**
 * Does what may be done twice again while the connection is lost, for the database's `reconnectMs` at the most.
 * @throws what the last attempt threw
 */
export async function persistently<Result>(
  { reconnectMs }: Pick<Database, "reconnectMs">,
  act: (attempt: number) => Promise<Result>,
): Promise<Result> {
  const deadline = performance.now() + reconnectMs;
  let pause = FIRST_PAUSE;
  for (let attempt = 1; ; attempt++) {
    try {
      return await act(attempt);
    } catch (error) {
      const isPassing =
        error instanceof PostgresStoreError && error.code === "unreachable" && !isFinal(error);
      if (!isPassing || performance.now() + pause > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }
}

/** What no second attempt changes: a name that nobody knows, trouble with TLS. */
function isFinal({ cause }: PostgresStoreError): boolean {
  return (
    cause instanceof Error && ((cause as NodeJS.ErrnoException).code === "ENOTFOUND" || isTlsTrouble(cause))
  );
}
