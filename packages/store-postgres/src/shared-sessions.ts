import { randomUUID } from "node:crypto";
import type { Client, ClientBase } from "pg";
import { PostgresStoreError } from "./postgres-store-error.ts";

/** So often it is looked whether another connection finds what one has set: a pooler may answer by another one first. */
const LOOKS = 3;

/**
 * Refuses a pooler that gives a connection to another program between two transactions: leases, hints and settings live
 * with a connection. What one connection has set, another one must not find. Servers that are asked directly say so by
 * the number of their process, and are not asked again.
 *
 * @throws PostgresStoreError `unsuitable`
 */
export async function refuseSharedSessions(
  client: ClientBase,
  createClient: () => Client,
  place: string,
): Promise<void> {
  const mark = randomUUID();
  const { rows } = await client.query<{ backend: number }>(
    `SELECT pg_backend_pid() AS backend, set_config('espalier.connection', '${mark}', false)`,
  );
  if ((client as ClientBase & { processID?: number }).processID === Number(rows[0]!.backend)) return;
  const other = createClient();
  other.on("error", () => undefined);
  try {
    await other.connect();
    for (let look = 0; look < LOOKS; look++) {
      const found = await other.query<{ mark: string }>(
        "SELECT current_setting('espalier.connection', true) AS mark",
      );
      if (found.rows[0]?.mark === mark)
        throw new PostgresStoreError(
          "unsuitable",
          `${place} is a pooler in transaction mode, and sessions need connections of their own; give it pool_mode = session (PgBouncer), or name the server itself.`,
        );
    }
  } finally {
    await other.end().catch(() => undefined);
  }
}
