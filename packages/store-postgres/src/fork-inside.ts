import { randomUUID } from "node:crypto";
import { formatLine } from "@espalier/jsonl-stream";
import type { ForkPlan, SessionHeader } from "@espalier/session-tree";
import { insertSession, madeOnce } from "./create-session.ts";
import type { Connection, Database } from "./database.ts";
import { bytesOfLine, type FetchedLine } from "./fetch-lines.ts";
import type { FoundSession } from "./found-session.ts";
import { insertLines } from "./insert-lines.ts";
import { rowOfHeader, rowOfLine } from "./line-row.ts";
import { factsOf } from "./session-facts.ts";
import { type ExtentRow, extentOf, type SessionPlace, sessionKey } from "./session-place.ts";

/** Copies the lines of a path behind the header, in their order; positions and bytes are counted anew. */
const COPY = {
  name: "espalier-copy",
  text: `WITH RECURSIVE path AS (
    SELECT id, parent FROM espalier.line WHERE session = $1 AND id = $2
    UNION ALL
    SELECT up.id, up.parent FROM path
    CROSS JOIN LATERAL (SELECT * FROM espalier.line WHERE session = $1 AND id = path.parent LIMIT 1) AS up
  ), copied AS (
    SELECT own.*, row_number() OVER upto AS number, sum(octet_length(own.line) + 1) OVER upto AS last_byte
    FROM path CROSS JOIN LATERAL (SELECT * FROM espalier.line WHERE session = $1 AND id = path.id LIMIT 1) AS own
    WINDOW upto AS (ORDER BY own.position)
  ), counter AS (
    UPDATE espalier.session AS own SET lines = own.lines + total.lines, bytes = own.bytes + total.bytes
    FROM (SELECT count(*) AS lines, coalesce(max(last_byte), 0) AS bytes FROM copied) AS total
    WHERE own.key = $3
    RETURNING own.lines, own.bytes, own.lines - total.lines AS first_line, own.bytes - total.bytes AS first_byte
  ), inserted AS (
    INSERT INTO espalier.line (session, position, at, id, parent, type, moves, first_kept, line)
    SELECT $3, first_line + number - 1, first_byte + last_byte - octet_length(line) - 1, id, parent, type, moves,
      first_kept, line
    FROM counter, copied
  )
  SELECT lines, bytes FROM counter`,
};

/** The lines that say what a list shows of a session. */
const TELLING = {
  text: `WITH own AS (SELECT * FROM espalier.line WHERE session = $1 AND id IS NOT NULL)
    SELECT line, raw FROM (
      (SELECT * FROM own WHERE type = 'message' AND espalier.field(line, 'message', 'role') = 'user' ORDER BY position LIMIT 1)
      UNION (SELECT * FROM own WHERE type = 'session_info' ORDER BY position DESC LIMIT 1)
      UNION (SELECT * FROM own WHERE type = 'compaction' ORDER BY position DESC LIMIT 1)
      UNION (SELECT * FROM own ORDER BY position DESC LIMIT 1)
    ) AS telling ORDER BY position`,
};

/**
 * Makes a fork of a plain session by copying inside the database; only what is new goes over the wire.
 * @throws SessionTreeError `exists`; PostgresStoreError
 */
export async function forkInside(
  database: Database,
  namespace: string,
  source: SessionPlace,
  ref: string,
  header: SessionHeader,
  { leafId, additions }: ForkPlan,
): Promise<FoundSession> {
  const place: SessionPlace = { key: sessionKey(namespace, ref), ref, made: randomUUID() };
  const made = madeOnce(database, place, async (connection) => {
    await insertSession(connection, namespace, place, header.id);
    await insertLines(connection, place, [rowOfHeader(formatLine(header))]);
    const values = [source.key, leafId, place.key];
    const [copied] = await connection.query<ExtentRow>(COPY, values);
    await tell(connection, place);
    const rows = additions.map((entry) => rowOfLine(formatLine(entry)));
    const added = rows.length > 0 ? await insertLines(connection, place, rows) : undefined;
    return { extent: added?.end ?? extentOf(copied!), isPlain: true };
  });
  return { place, header, ...(await made) };
}

async function tell(connection: Connection, { key }: SessionPlace): Promise<void> {
  const telling = await connection.query<FetchedLine>(TELLING, [key]);
  const facts = factsOf(telling.map((line) => rowOfLine(bytesOfLine(line))));
  await connection.query(
    {
      text: `UPDATE espalier.session SET name = $2, first_message = $3, updated_at = $4, last_compaction = $5
        WHERE key = $1`,
    },
    [key, facts.name, facts.firstMessage, facts.updatedAt, facts.lastCompaction],
  );
}
