import { randomUUID } from "node:crypto";
import { EspalierError, formatLine } from "@espalier/jsonl-stream";
import {
  type ForkPlan,
  headerLine,
  importedFrom,
  lastChange,
  parsedHeader,
  parseHeader,
  type SessionHeader,
  type SessionListing,
  type SessionRef,
  sessionRef,
  type UpgradedLog,
} from "@espalier/session-tree";
import { type Connection, type Database, retriedQuery, retryIdempotent } from "./database.ts";
import {
  bytesOfLine,
  currentRows,
  EXTENT,
  type Extent,
  type FetchedLine,
  type FoundSession,
  factsOf,
  insertFrom,
  insertLines,
  isKeyable,
  type LineRow,
  LONGEST_KEY,
  lineValues,
  namespaceOf,
  retryWrite,
  rowOfHeader,
  rowOfLine,
  rowsOf,
  type SessionPlace,
  sessionKey,
  withSessionError,
} from "./lines.ts";

/** Maximum lines and bytes per statement when a session is created. */
const BATCH_LINES = 1_000;
const BATCH_BYTES = 4 * 1024 * 1024;

/**
 * Creates a session from a header and lines, completely or not at all.
 * @throws EspalierError `exists`, `invalid-entry`, and the errors of every call of the store
 */
export async function createSession(
  database: Database,
  namespace: string,
  ref: string,
  header: SessionHeader | string,
  lines: Iterable<string | Uint8Array>,
): Promise<FoundSession> {
  const place: SessionPlace = { key: sessionKey(namespace, ref), ref, made: randomUUID() };
  const parsed = parsedHeader(header);
  // The iterable is read once, because it may not be repeatable and the transaction can be retried.
  const [first = [], ...further] = batches(rowsOf(lineOf(header), lines));
  const make = async (connection: Connection): Promise<Made> => {
    let extent = await insertSession(connection, namespace, place, parsed.id, first);
    for (const batch of further) extent = (await insertLines(connection, place, batch)).end;
    return { extent, isPlain: [first, ...further].flat().every((row) => row.isPlain) };
  };
  const made = await madeOnce(database, place, make, further.length > 0);
  return { place, header: parsed, ...made };
}

type Made = Pick<FoundSession, "extent" | "isPlain">;

const STATE = {
  name: "espalier-extent",
  text: `SELECT ${EXTENT}, plain FROM espalier.session WHERE key = $1 AND made = $2`,
};

/** Returns the current size of a session; undefined when it was removed, or upgraded or replaced by another one. */
export async function currentState(
  connection: Connection,
  { key, made }: SessionPlace,
): Promise<Made | undefined> {
  const [row] = await connection.query<Extent & { plain: boolean }>(STATE, [key, made]);
  return row && { extent: extentOf(row), isPlain: row.plain };
}

const extentOf = ({ lines, bytes }: Extent): Extent => ({ lines, bytes });

/**
 * Creates a session, completely or not at all, and only once, even if the connection is lost and the call retried.
 *
 * @param inSteps true when several statements create it, so that a transaction is needed
 */
function madeOnce(
  database: Database,
  place: SessionPlace,
  make: (connection: Connection) => Promise<Made>,
  inSteps: boolean,
): Promise<Made> {
  return retryWrite(database, DOUBT, async (attempt) => {
    try {
      return await (inSteps ? database.transaction(make) : make(database));
    } catch (error) {
      // The name may have been used by an earlier attempt whose result was lost.
      const mayBeOwn = error instanceof EspalierError && error.code === "exists" && attempt > 1;
      const own = mayBeOwn ? await currentState(database, place) : undefined;
      if (!own) throw error;
      return own;
    }
  });
}

const DOUBT = "The session may have been created all the same; open it to see whether it was.";

/** Constraints that are violated when the name of a new session exists. */
const TAKEN: ReadonlySet<string> = new Set(["session_pkey", "session_name"]);

/** Creates a session and its first lines. If the name is the id, no other session may have the id. */
const INSERT_SESSION = {
  name: "espalier-create",
  text: `WITH created AS (
    INSERT INTO espalier.session (key, namespace, ref, made, id, lines, bytes, plain, name, first_message, updated_at,
      last_compaction)
    SELECT $1, $2, $3, $4::uuid, $5, $6, $7, $8, $9, $10, $11, $12
    WHERE $5::text IS NOT NULL OR NOT EXISTS (
      SELECT FROM espalier.session WHERE namespace = $2 AND coalesce(id, ref) = $3 AND original_of IS NULL
    )
    RETURNING key, 0 AS first_line, 0 AS first_byte
  ), inserted AS (
    ${insertFrom("created", 13)}
  )
  SELECT key FROM created`,
};

/**
 * Creates a session with its first lines by one statement. Returns its extent.
 *
 * @param id id in the header; stored only when it differs from the name
 * @throws EspalierError `exists`; `invalid-entry` for an invalid name
 */
async function insertSession(
  connection: Connection,
  namespace: string,
  { key, ref, made }: SessionPlace,
  id: string,
  rows: readonly LineRow[],
): Promise<Extent> {
  checkRef(ref);
  const taken = (cause?: unknown) =>
    new EspalierError(
      "exists",
      `There is a session ${ref} already; open it, or give the new one another name or id.`,
      { cause },
    );
  const { values, bytes, isPlain, facts } = lineValues(rows);
  try {
    const created = await connection.query(INSERT_SESSION, [
      ...[key, namespace, ref, made, id === ref ? null : isRef(id) ? id : ""],
      ...[rows.length, bytes, isPlain, ...facts],
      ...values,
    ]);
    if (created.length === 0) throw taken();
  } catch (cause) {
    if (!(cause instanceof EspalierError && TAKEN.has(cause.constraint ?? ""))) throw cause;
    throw taken(cause);
  }
  return { lines: rows.length, bytes };
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
    if (!(cause instanceof EspalierError)) throw cause;
    throw new EspalierError("invalid-entry", cause.message, { cause });
  }
}

function checkRef(ref: string): void {
  if (/^([/~]|[A-Za-z]:[/\\])/.test(ref)) {
    throw new EspalierError(
      "invalid-entry",
      `${ref} is the path of a file, but sessions in a database have names; give it a name, and \`espalier copy store:NAME ${ref}\` makes a file of it.`,
    );
  }
  if (isRef(ref)) return;
  throw new EspalierError(
    "invalid-entry",
    `The name of a session in a database has 1 to ${LONGEST_KEY} characters; give it another one.`,
  );
}

/** Returns whether a text can be a key. Any other id is only in the header, and cannot be searched. */
export const isRef = (text: string): boolean => text !== "" && isKeyable(text);

interface FoundRow extends FetchedLine, Extent {
  ref: string;
  made: string;
  plain: boolean;
}

const FOUND = `SELECT s.ref, s.made, ${EXTENT}, s.plain, head.line, head.raw FROM espalier.session s
    LEFT JOIN espalier.line head ON head.session = s.key AND head.position = 0`;
const BY_NAME = { name: "espalier-find", text: `${FOUND} WHERE s.key = $1` };

/** Maximum number of sessions that an `ambiguous` error names. */
const NAMED = 3;

/** Selects the sessions with an id. A session stored under its id comes first. */
const BY_ID = {
  name: "espalier-find-id",
  text: `${FOUND} WHERE s.namespace = $1 AND coalesce(s.id, s.ref) = $2 AND s.original_of IS NULL
    ORDER BY (s.ref = $2) DESC, s.ref LIMIT ${NAMED + 1}`,
};

/**
 * Finds the session with exactly this id or with this name. Of several with the id, the one stored under it is
 * returned.
 * @throws EspalierError `not-found`, `ambiguous`
 */
export async function findSession(
  database: Database,
  namespace: string,
  ref: SessionRef,
): Promise<FoundSession> {
  const asked = sessionRef(ref);
  const text = "id" in asked ? asked.id : asked.file;
  const isKey = text !== "" && !text.includes("\0");
  const found = !isKey
    ? undefined
    : "id" in asked
      ? await sessionWith(database, namespace, text)
      : await sessionNamed(database, namespace, text);
  if (found) return found;
  throw notFound(database, text);
}

export const notFound = ({ place }: Database, ref: string) =>
  new EspalierError(
    "not-found",
    `There is no session ${JSON.stringify(ref)} in ${place}; \`espalier list\` with --store shows the existing ones.`,
  );

async function sessionWith(database: Database, namespace: string, id: string) {
  const rows = await retriedQuery<FoundRow>(database, BY_ID, [namespace, id]);
  const [row] = rows;
  if (rows.length <= 1 || row!.ref === id) return row && found(namespace, row);
  const names = rows.slice(0, NAMED).map(({ ref }) => ref);
  if (rows.length > NAMED) names.push("…");
  const message = `Several sessions have the id ${id}: ${names.join(" and ")}; name one of them by { file }.`;
  throw new EspalierError("ambiguous", message);
}

async function sessionNamed(
  database: Database,
  namespace: string,
  ref: string,
): Promise<FoundSession | undefined> {
  const [row] = await retriedQuery<FoundRow>(database, BY_NAME, [sessionKey(namespace, ref)]);
  return row && found(namespace, row);
}

function found(namespace: string, row: FoundRow): FoundSession {
  return {
    place: { key: sessionKey(namespace, row.ref), ref: row.ref, made: row.made },
    header: headerOf(row),
    extent: extentOf(row),
    isPlain: row.plain,
  };
}

function headerOf(line: FetchedLine): SessionHeader | undefined {
  if (line.line === null && line.raw === null) return undefined;
  return parseHeader(JSON.parse(new TextDecoder().decode(bytesOfLine(line))));
}

/** Number of sessions that the first statement of a list returns, enough for one screen, and each later statement. */
const FIRST_PAGE = 50;
const PAGE = 200;

interface ListedRow extends FetchedLine {
  ref: string;
  modified: Date;
  /** Time of the last write with microseconds, for the next page. */
  moment: string;
  bytes: number;
  name: string | null;
  first_message: string | null;
  updated_at: string | null;
  last_compaction: string | null;
}

/** The limit is part of the SQL text. With a parameter, the planner may sort all sessions. */
const listOf = (limit: number) => ({
  name: `espalier-list-${limit}`,
  text: `SELECT s.ref, s.modified, s.modified::text AS moment, s.bytes::float8 AS bytes, s.name, s.first_message, s.updated_at,
      s.last_compaction, head.line, head.raw
    FROM espalier.session s
    LEFT JOIN espalier.line head ON head.session = s.key AND head.position = 0
    WHERE s.namespace = $1 AND s.original_of IS NULL AND (s.modified, s.ref) < ($2::timestamptz, $3)
    ORDER BY s.modified DESC, s.ref DESC LIMIT ${limit}`,
});

/**
 * Yields the sessions of a namespace, the last written first. A session that is written during the listing is not
 * listed twice; if its turn had not come yet, it is left out.
 *
 * @throws EspalierError `unreadable`
 */
export async function* listSessions(database: Database, namespace: string): AsyncGenerator<SessionListing> {
  let before: [string, string] = ["infinity", ""];
  for (let limit = FIRST_PAGE; ; limit = PAGE) {
    const values = [namespace, ...before];
    const rows = await withSessionError("unreadable", () =>
      retriedQuery<ListedRow>(database, listOf(limit), values),
    );
    for (const row of rows) yield listing(row);
    const last = rows.at(-1);
    if (!last || rows.length < limit) return;
    before = [last.moment, last.ref];
  }
}

function listing(row: ListedRow): SessionListing {
  const header = headerOf(row);
  return {
    id: header?.id ?? "",
    ref: row.ref,
    cwd: header?.cwd ?? "",
    importedFrom: importedFrom(header),
    name: row.name || null,
    firstMessage: row.first_message,
    modified: new Date(row.modified).toISOString(),
    updatedAt: lastChange(header, row.updated_at),
    lastCompaction: row.last_compaction,
    bytes: row.bytes,
    parent: header?.parent ?? null,
  };
}

/** Returns the session from which a fork is made, if it is in this namespace and plain. */
export async function forkSource(
  database: Database,
  namespace: string,
  { parent, parentSession }: SessionHeader,
): Promise<SessionPlace | undefined> {
  const source =
    parentSession === undefined ? undefined : await sessionNamed(database, namespace, parentSession);
  return source?.isPlain && source.header?.id === parent?.sessionId ? source.place : undefined;
}

/** Copies the lines of a path after the header, in order, with new positions and offsets. */
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
  SELECT ${EXTENT} FROM counter`,
};

/** Selects the lines from which the listing of a session is made. */
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
 * Forks a plain session by copying its lines inside the database. Only new lines are sent over the network.
 * @throws EspalierError `exists`, and the errors of every call of the store
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
  const make = async (connection: Connection) => {
    await insertSession(connection, namespace, place, header.id, [rowOfHeader(formatLine(header))]);
    const values = [source.key, leafId, place.key];
    const [copied] = await connection.query<Extent>(COPY, values);
    await tell(connection, place);
    const rows = additions.map((entry) => rowOfLine(formatLine(entry)));
    const added = rows.length > 0 ? await insertLines(connection, place, rows) : undefined;
    return { extent: added?.end ?? copied!, isPlain: true };
  };
  return { place, header, ...(await madeOnce(database, place, make, true)) };
}

async function tell(connection: Connection, { key }: SessionPlace): Promise<void> {
  const telling = await connection.query<FetchedLine>(TELLING, [key]);
  const facts = factsOf(telling.map((line) => rowOfLine(bytesOfLine(line))));
  await connection.query(
    {
      text: `UPDATE espalier.session SET name = $2, first_message = $3, updated_at = $4, last_compaction = $5
        WHERE key = $1`,
    },
    [key, ...facts],
  );
}

/** Fills the session row of an original from its session. Columns that are not set here keep their values. */
const MARK = {
  text: `UPDATE espalier.session AS original SET original_of = own.key, lines = own.lines, bytes = own.bytes,
      plain = false, created = own.created, modified = own.modified, name = own.name,
      first_message = own.first_message, updated_at = own.updated_at, last_compaction = own.last_compaction
    FROM espalier.session AS own WHERE own.key = $1 AND original.key = $2`,
};

/**
 * Rewrites a session of an old format in the current one, completely or not at all. The original lines are kept under
 * another name, `<ref>.v1` or `.v2`. Programs that have the session open get `changed`.
 *
 * @param seen extent of the session when it was read
 * @throws EspalierError `changed` when the session was replaced or has grown; `exists` when the name for the original
 * exists
 */
export function upgradeSession(
  database: Database,
  place: SessionPlace,
  seen: Extent,
  { view, from }: UpgradedLog,
): Promise<Omit<FoundSession, "header">> {
  const { key, ref } = place;
  const made = randomUUID();
  const name = `${ref}.v${from}`;
  const original = { key: sessionKey(namespaceOf(place), name), ref: name, made: place.made };
  const rows = currentRows(view);
  const isPlain = rows.every((row) => row.isPlain);
  return retryIdempotent(database, () =>
    database.transaction(async (connection) => {
      const [now] = await connection.query<Extent & { made: string }>(
        { text: `SELECT made, ${EXTENT} FROM espalier.session WHERE key = $1 FOR UPDATE` },
        [key],
      );
      // An earlier attempt whose result was lost has done it. Lines of others behind it are not read yet.
      if (now?.made === made)
        return { place: { key, ref, made }, extent: { lines: rows.length, bytes: view.size }, isPlain };
      if (now?.made !== place.made || now.lines !== seen.lines) throw replaced(ref);
      await insertSession(connection, namespaceOf(place), original, name, []);
      await connection.query(MARK, [key, original.key]);
      await connection.query({ text: "UPDATE espalier.line SET session = $2 WHERE session = $1" }, [
        key,
        original.key,
      ]);
      await connection.query(
        { text: "UPDATE espalier.session SET made = $2, lines = 0, bytes = 0, plain = true WHERE key = $1" },
        [key, made],
      );
      let extent: Extent = { lines: 0, bytes: 0 };
      for (const batch of batches(rows))
        extent = (await insertLines(connection, { key, ref, made }, batch)).end;
      return { place: { key, ref, made }, extent, isPlain };
    }),
  );
}

/** Error for a session of an old format that another writer upgraded or removed after it was read. */
export const replaced = (ref: string) =>
  new EspalierError(
    "changed",
    `${ref} was upgraded to the current format by another writer, or removed; open it again.`,
  );
