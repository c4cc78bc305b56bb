import { randomUUID } from "node:crypto";
import { SessionTreeError, type UpgradedLog } from "@espalier/session-tree";
import { insertAll, insertSession } from "./create-session.ts";
import type { Connection, Database } from "./database.ts";
import { persistently } from "./persistently.ts";
import {
  type Extent,
  type ExtentRow,
  extentOf,
  namespaceOf,
  type SessionPlace,
  sessionKey,
} from "./session-place.ts";
import { currentRows } from "./session-rows.ts";

/** A session that was brought to the current format. */
export interface UpgradedSession {
  place: SessionPlace;
  extent: Extent;
  isPlain: boolean;
}

/** What the session row of an original says of itself; what is not named here is as in the session. */
const MARK = {
  text: `UPDATE espalier.session AS original SET original_of = own.key, lines = own.lines, bytes = own.bytes,
      plain = false, created = own.created, modified = own.modified, name = own.name,
      first_message = own.first_message, updated_at = own.updated_at, last_compaction = own.last_compaction
    FROM espalier.session AS own WHERE own.key = $1 AND original.key = $2`,
};

/**
 * Brings a session of an old format to the current one, as it reads, all of it or nothing. What stood there keeps its
 * lines, under the name that the seam has for it. Whoever had the session open finds another one in its place.
 *
 * @param seen what there was when it was read
 * @throws SessionTreeError `changed` where it is another one by now; `exists` where the name for what stood there is taken
 */
export function upgradeSession(
  database: Database,
  place: SessionPlace,
  seen: Extent,
  { view, from }: UpgradedLog,
): Promise<UpgradedSession> {
  const { key, ref } = place;
  const made = randomUUID();
  const name = `${ref}.v${from}`;
  const original = { key: sessionKey(namespaceOf(place), name), ref: name, made: place.made };
  const rows = currentRows(view);
  const isPlain = rows.every((row) => row.isPlain);
  return persistently(database, () =>
    database.transaction(async (connection) => {
      const now = await held(connection, key);
      // An attempt whose end nobody heard of has done it.
      if (now?.made === made) return { place: { key, ref, made }, extent: now.extent, isPlain };
      if (now?.made !== place.made || now.extent.lines !== seen.lines) throw replaced(ref);
      await insertSession(connection, namespaceOf(place), original, name);
      await connection.query(MARK, [key, original.key]);
      await connection.query({ text: "UPDATE espalier.line SET session = $2 WHERE session = $1" }, [
        key,
        original.key,
      ]);
      await connection.query(
        { text: "UPDATE espalier.session SET made = $2, lines = 0, bytes = 0, plain = true WHERE key = $1" },
        [key, made],
      );
      const extent = await insertAll(connection, { key, ref, made }, rows);
      return { place: { key, ref, made }, extent, isPlain };
    }),
  );
}

/** The session's row, which nobody else changes until the commit. */
async function held(connection: Connection, key: string) {
  const [row] = await connection.query<ExtentRow & { made: string }>(
    { text: "SELECT made, lines, bytes FROM espalier.session WHERE key = $1 FOR UPDATE" },
    [key],
  );
  return row && { made: row.made, extent: extentOf(row) };
}

/** The error for a session of an old format that is not what was read of it any more. */
export const replaced = (ref: string) =>
  new SessionTreeError(
    "changed",
    `${ref} was brought to the current format by somebody else, or removed; open it again.`,
  );
