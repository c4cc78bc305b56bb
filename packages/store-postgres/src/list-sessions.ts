import type { SessionListing } from "@espalier/session-tree";
import type { Database } from "./database.ts";
import type { FetchedLine } from "./fetch-lines.ts";
import { headerOf } from "./find-session.ts";
import { asTroubleOfSession } from "./log-errors.ts";
import { persistently } from "./persistently.ts";

/** Sessions that one statement lists. */
const PAGE = 200;

interface ListedRow extends FetchedLine {
  ref: string;
  modified: Date;
  /** With microseconds, as the next page needs it. */
  moment: string;
  bytes: string;
  name: string | null;
  first_message: string | null;
  updated_at: string | null;
  last_compaction: string | null;
}

const LIST = {
  name: "espalier-list",
  text: `SELECT s.ref, s.modified, s.modified::text AS moment, s.bytes, s.name, s.first_message, s.updated_at,
      s.last_compaction, head.line, head.raw
    FROM espalier.session s
    LEFT JOIN espalier.line head ON head.session = s.key AND head.position = 0
    WHERE s.namespace = $1 AND s.original_of IS NULL AND (s.modified, s.ref) < ($2::timestamptz, $3)
    ORDER BY s.modified DESC, s.ref DESC LIMIT ${PAGE}`,
};

/**
 * Sessions, the one written last first. One that is written while they are listed is not listed twice, and not at all
 * where it would have come later.
 *
 * @throws SessionTreeError `unreadable`
 */
export async function* listSessions(database: Database, namespace: string): AsyncGenerator<SessionListing> {
  let before: [string, string] = ["infinity", ""];
  for (;;) {
    const values = [namespace, ...before];
    const rows = await asTroubleOfSession("unreadable", () =>
      persistently(database, () => database.query<ListedRow>(LIST, values)),
    );
    for (const row of rows) yield listing(row);
    const last = rows.at(-1);
    if (!last || rows.length < PAGE) return;
    before = [last.moment, last.ref];
  }
}

function listing(row: ListedRow): SessionListing {
  const header = headerOf(row);
  return {
    id: header?.id ?? "",
    ref: row.ref,
    cwd: header?.cwd ?? "",
    name: row.name || null,
    firstMessage: row.first_message,
    modified: new Date(row.modified).toISOString(),
    updatedAt: row.updated_at,
    lastCompaction: row.last_compaction,
    bytes: Number(row.bytes),
    parent: header?.parent ?? null,
  };
}
