import { randomUUID } from "node:crypto";
import { JsonlError } from "@espalier/jsonl-stream";
import { headerLine, parsedHeader, type SessionHeader, SessionTreeError } from "@espalier/session-tree";
import type { Connection, Database } from "./database.ts";
import type { FoundSession } from "./found-session.ts";
import { insertLines } from "./insert-lines.ts";
import type { LineRow } from "./line-row.ts";
import { persistently } from "./persistently.ts";
import { PostgresStoreError } from "./postgres-store-error.ts";
import { type Extent, type ExtentRow, extentOf, type SessionPlace, sessionKey } from "./session-place.ts";
import { rowsOf } from "./session-rows.ts";

/** Lines and bytes of one statement while a session is made. */
const BATCH_LINES = 1_000;
const BATCH_BYTES = 4 * 1024 * 1024;

/** Longest name of a session, in characters: it is part of every key. */
const LONGEST_REF = 256;

/**
 * Makes a session of a header and lines, all of it or nothing.
 * @throws SessionTreeError `exists`, `invalid-entry`; PostgresStoreError
 */
export async function createSession(
  database: Database,
  namespace: string,
  ref: string,
  header: SessionHeader | string,
  lines: Iterable<string | Uint8Array>,
): Promise<FoundSession> {
  const place: SessionPlace = { key: sessionKey(namespace, ref), ref, made: randomUUID() };
  // An iterable may answer only once, so it is read once, whatever becomes of the connection.
  const rows = rowsOf(lineOf(header), lines);
  const made = await madeOnce(database, place, async (connection) => {
    await insertSession(connection, namespace, place, parsedHeader(header).id);
    const extent = await insertAll(connection, place, rows);
    return { extent, isPlain: rows.every((row) => row.isPlain) };
  });
  return { place, header: parsedHeader(header), ...made };
}

/** What a session is when it has been made. */
type Made = Pick<FoundSession, "extent" | "isPlain">;

/** Makes a session in one transaction, once however often the connection is lost over it. */
export function madeOnce(
  database: Database,
  place: SessionPlace,
  make: (connection: Connection) => Promise<Made>,
): Promise<Made> {
  return persistently(database, async (attempt) => {
    try {
      return await database.transaction(make);
    } catch (error) {
      // The name may be taken by an attempt before, whose end nobody heard of.
      const isTaken = error instanceof SessionTreeError && error.code === "exists";
      const own = isTaken && attempt > 1 ? await ownSession(database, place) : undefined;
      if (!own) throw error;
      return own;
    }
  });
}

/** What an attempt whose end nobody heard of has made. */
async function ownSession(database: Database, { key, made }: SessionPlace): Promise<Made | undefined> {
  const [row] = await database.query<ExtentRow & { plain: boolean }>(
    {
      text: "SELECT lines, bytes, plain FROM espalier.session WHERE key = $1 AND made = $2",
    },
    [key, made],
  );
  return row && { extent: extentOf(row), isPlain: row.plain };
}

/** Rules that a session breaks whose name is taken. */
const TAKEN: ReadonlySet<string> = new Set(["session_pkey", "session_name"]);

/** A session that is kept under its id is no second one of that id. */
const INSERT_SESSION = {
  text: `INSERT INTO espalier.session (key, namespace, ref, made, id)
    SELECT $1, $2, $3, $4::uuid, $5
    WHERE $5::text IS NOT NULL OR NOT EXISTS (
      SELECT FROM espalier.session WHERE namespace = $2 AND coalesce(id, ref) = $3 AND original_of IS NULL
    )
    RETURNING key`,
};

/**
 * @param id of the header; the table keeps it where it is not the name
 * @throws SessionTreeError `exists`; `invalid-entry` for what cannot be a name
 */
export async function insertSession(
  connection: Connection,
  namespace: string,
  { key, ref, made }: SessionPlace,
  id: string,
): Promise<void> {
  checkRef(ref);
  const taken = (cause?: unknown) =>
    new SessionTreeError(
      "exists",
      `There is a session ${ref} already; open it, or give the new one another name or id.`,
      { cause },
    );
  try {
    const values = [key, namespace, ref, made, id === ref ? null : isRef(id) ? id : ""];
    const rows = await connection.query(INSERT_SESSION, values);
    if (rows.length === 0) throw taken();
  } catch (cause) {
    if (!(cause instanceof PostgresStoreError && TAKEN.has(cause.constraint ?? ""))) throw cause;
    throw taken(cause);
  }
}

/** Inserts rows in batches; answers what the session has then. */
export async function insertAll(
  connection: Connection,
  place: SessionPlace,
  rows: readonly LineRow[],
): Promise<Extent> {
  let extent: Extent = { lines: 0, bytes: 0 };
  for (const batch of batches(rows)) extent = (await insertLines(connection, place, batch)).end;
  return extent;
}

function* batches(rows: readonly LineRow[]): Generator<LineRow[]> {
  let batch: LineRow[] = [];
  let bytes = 0;
  for (const row of rows) {
    batch.push(row);
    bytes += row.bytes.length;
    if (batch.length < BATCH_LINES && bytes < BATCH_BYTES) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

function lineOf(header: SessionHeader | string): string {
  try {
    return headerLine(header);
  } catch (cause) {
    if (!(cause instanceof JsonlError)) throw cause;
    throw new SessionTreeError("invalid-entry", cause.message, { cause });
  }
}

function checkRef(ref: string): void {
  if (/^([/~]|[A-Za-z]:[/\\])/.test(ref)) {
    throw new SessionTreeError(
      "invalid-entry",
      `${ref} is the path of a file, and sessions in a database have names; give it one, and \`espalier copy store:NAME ${ref}\` makes a file of it.`,
    );
  }
  if (isRef(ref)) return;
  throw new SessionTreeError(
    "invalid-entry",
    `The name of a session in a database has 1 to ${LONGEST_REF} characters; give it another one.`,
  );
}

/** Whether a text can be a key: an id that cannot is in the header alone, and finds nothing. */
const isRef = (text: string): boolean =>
  text !== "" && text.length <= LONGEST_REF && !/\0|\p{Surrogate}/u.test(text);
