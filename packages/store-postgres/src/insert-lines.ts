import { SessionTreeError } from "@espalier/session-tree";
import type { Connection } from "./database.ts";
import type { LineRow } from "./line-row.ts";
import { factsOf } from "./session-facts.ts";
import { type Extent, extentOf, type SessionPlace } from "./session-place.ts";

/**
 * Counts lines into their session and inserts them, in one statement. The session's row is the counter: who updates it
 * holds it until the commit, so positions and bytes have no gaps and no order but that of the commits.
 */
const INSERT = {
  name: "espalier-insert",
  text: `WITH counter AS (
    UPDATE espalier.session SET
      lines = lines + $3, bytes = bytes + $4, modified = clock_timestamp(), plain = plain AND $5,
      name = coalesce($6, name), first_message = coalesce(first_message, $7),
      updated_at = coalesce($8, updated_at), last_compaction = coalesce($9, last_compaction)
    WHERE key = $1 AND made = $2 AND ($18::bigint IS NULL OR lines = $18)
    RETURNING lines - $3 AS first_line, bytes - $4 AS first_byte
  ), inserted AS (
    INSERT INTO espalier.line (session, position, at, id, parent, type, moves, first_kept, line, raw)
    SELECT $1, first_line + row.number - 1, first_byte + row.at, row.id, row.parent, row.type, row.moves,
      row.first_kept, row.line, row.raw
    FROM counter, unnest($10::bigint[], $11::text[], $12::text[], $13::text[], $14::boolean[], $15::text[], $16::text[],
      $17::bytea[]) WITH ORDINALITY AS row (at, id, parent, type, moves, first_kept, line, raw, number)
  )
  SELECT first_line, first_byte FROM counter`,
};

/** Where lines were put. */
export interface Inserted {
  /** What the session had before them. */
  start: Extent;
  /** What it has with them. */
  end: Extent;
}

/**
 * Adds lines behind the last one.
 *
 * @param onlyBehind lines that the session has to have for that; default: any number
 * @throws PostgresStoreError `refused` with a `constraint`; SessionTreeError `removed`, `moved`
 */
export async function insertLines(
  connection: Connection,
  { key, ref, made }: SessionPlace,
  rows: readonly LineRow[],
  onlyBehind?: number,
): Promise<Inserted> {
  const facts = factsOf(rows);
  const starts: number[] = [];
  let bytes = 0;
  for (const row of rows) {
    starts.push(bytes);
    bytes += row.bytes.length + 1;
  }
  const [counter] = await connection.query<{ first_line: string; first_byte: string }>(INSERT, [
    key,
    made,
    rows.length,
    bytes,
    rows.every(({ isPlain }) => isPlain),
    facts.name,
    facts.firstMessage,
    facts.updatedAt,
    facts.lastCompaction,
    starts,
    rows.map(({ id }) => id),
    rows.map(({ parent }) => parent),
    rows.map(({ type }) => type),
    rows.map(({ moves }) => moves),
    rows.map(({ firstKept }) => firstKept),
    rows.map(({ text }) => text),
    rows.map(({ raw }) => raw),
    onlyBehind ?? null,
  ]);
  if (!counter) throw await whyNone(connection, { key, ref, made }, onlyBehind);
  const start = extentOf({ lines: counter.first_line, bytes: counter.first_byte });
  return { start, end: { lines: start.lines + rows.length, bytes: start.bytes + bytes } };
}

async function whyNone(
  connection: Connection,
  { key, ref, made }: SessionPlace,
  onlyBehind: number | undefined,
): Promise<SessionTreeError> {
  if (onlyBehind === undefined) return gone(ref);
  const there = await connection.query(
    { text: "SELECT 1 AS there FROM espalier.session WHERE key = $1 AND made = $2" },
    [key, made],
  );
  if (there.length === 0) return gone(ref);
  const message = `Somebody else appended to ${ref} meanwhile; nothing was written. Look, and try again.`;
  return new SessionTreeError("moved", message);
}

/** The error for a session that is not there any more, or is another one by now. */
export const gone = (ref: string) =>
  new SessionTreeError("removed", `The session ${ref} was removed from the database; open or make another.`);
