// Separate from postgres-store.ts: it is the schema and its history.
import { EspalierError } from "@espalier/jsonl-stream";
import { type Connection, type Database, notMigrated, retryIdempotent } from "./database.ts";

/** Report of a migration. */
export interface MigrationReport {
  /** Address of the database for people. */
  place: string;
  /** Number of the newest applied step. */
  version: number;
  /** Steps applied by this call, as `number name`. */
  applied: string[];
  /** Warnings for the operator of the server, one sentence each. */
  warnings: string[];
}

/** Oldest supported PostgreSQL version, as `server_version_num`: 14. The statements rely on its behaviour. */
const OLDEST_SERVER = 140_000;

/** Advisory lock for changes of the tables: "espalier" in ASCII, as a number of 63 bits. */
const LOCK = 0x6573_7061n * 0x1_0000_0000n + 0x6c69_6572n;

/** Milliseconds to wait for another program that changes or uses the tables. */
const LOCK_MS = 30_000;

/**
 * Creates or upgrades the tables: each step once, all of them or none, one program at a time.
 * @throws EspalierError `unsuitable`, `newer`, `timeout`, `refused`, `unreachable`, `closed`
 */
export async function migrate(database: Database): Promise<MigrationReport> {
  const warnings = await inspectServer(database);
  const applied = await database.transaction(async (connection) => {
    await connection.query({ text: `SET LOCAL lock_timeout = ${LOCK_MS}` });
    await connection.query({ text: "SELECT pg_advisory_xact_lock($1::bigint)" }, [LOCK.toString()]);
    await connection.query({ text: SETUP });
    const current = await versionOf(connection);
    if (current > newest()) throw newer(database.place, current);
    const missing = migrations.filter(({ number }) => number > current);
    for (const { number, name, sql } of missing) {
      await connection.query({ text: sql });
      await connection.query({ text: "INSERT INTO espalier.migration (number, name) VALUES ($1, $2)" }, [
        number,
        name,
      ]);
    }
    return missing.map(({ number, name }) => `${number} ${name}`);
  });
  return { place: database.place, version: newest(), applied, warnings };
}

/** Checks the version of the tables. @throws EspalierError `not-migrated`, `newer`, and errors of the query */
export async function checkVersion(database: Database): Promise<void> {
  const current = await retryIdempotent(database, () => versionOf(database));
  if (current < newest()) throw notMigrated(database.place);
  if (current > newest()) throw newer(database.place, current);
}

const SETUP = `CREATE SCHEMA IF NOT EXISTS espalier;
CREATE TABLE IF NOT EXISTS espalier.migration (
  number integer PRIMARY KEY,
  name text NOT NULL,
  applied timestamptz NOT NULL DEFAULT clock_timestamp()
)`;
const newest = (): number => migrations.at(-1)!.number;

async function versionOf(connection: Connection): Promise<number> {
  const [row] = await connection.query<{ version: number }>({
    text: "SELECT coalesce(max(number), 0) AS version FROM espalier.migration",
  });
  return Number(row!.version);
}

async function inspectServer(database: Database): Promise<string[]> {
  const [server] = await database.query<{ version: string; encoding: string; fsync: string }>({
    text: `SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
      current_setting('fsync') AS fsync`,
  });
  const { version, encoding, fsync } = server!;
  if (Number(version) < OLDEST_SERVER)
    throw new EspalierError("unsuitable", `${database.place} is older than PostgreSQL 14; upgrade it.`);
  if (encoding !== "UTF8") {
    const message = `${database.place} stores text as ${encoding}; create a database with ENCODING 'UTF8' for sessions.`;
    throw new EspalierError("unsuitable", message);
  }
  if (fsync === "on") return [];
  return [
    "fsync is off on this server, so acknowledged data may not survive a loss of power. Set it to on for data that must be kept.",
  ];
}

const newer = (place: string, version: number) =>
  new EspalierError(
    "newer",
    `${place} has tables of version ${version}, made by a newer program than this one (${newest()}); upgrade this program.`,
  );

/**
 * Tables of sessions and their lines. A line is stored as `text`, because `jsonb` reorders keys and refuses `\u0000`;
 * `raw` has the bytes of a line that is not text. `position` counts the lines of a session without gaps, and `at` is
 * the offset of the line. The other columns are derived from the line when it is written: `moves` is true when the
 * entry can be the leaf, and `first_kept` is the first entry that a compaction keeps. Every key begins with the
 * session's key, which begins with its namespace. A session is `plain` while every line is an entry with a unique id
 * and a parent above it.
 */
const tables: Migration = {
  number: 1,
  name: "tables",
  sql: `
CREATE TABLE IF NOT EXISTS espalier.session (
  key text PRIMARY KEY,
  namespace text NOT NULL,
  ref text NOT NULL,
  made uuid NOT NULL,
  lines bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  plain boolean NOT NULL DEFAULT true,
  created timestamptz NOT NULL DEFAULT clock_timestamp(),
  modified timestamptz NOT NULL DEFAULT clock_timestamp(),
  name text,
  first_message text,
  updated_at text,
  last_compaction text,
  CONSTRAINT session_key CHECK (key = namespace || '/' || ref AND namespace NOT LIKE '%/%')
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX IF NOT EXISTS session_name ON espalier.session (namespace, ref);
CREATE INDEX IF NOT EXISTS session_modified ON espalier.session (namespace, modified DESC, ref DESC);

CREATE TABLE IF NOT EXISTS espalier.line (
  session text NOT NULL,
  position bigint NOT NULL,
  at bigint NOT NULL,
  id text,
  parent text,
  type text,
  moves boolean,
  first_kept text,
  line text,
  raw bytea,
  PRIMARY KEY (session, position),
  CONSTRAINT line_id UNIQUE (session, id),
  CONSTRAINT line_session FOREIGN KEY (session) REFERENCES espalier.session (key) ON DELETE CASCADE,
  CONSTRAINT line_parent FOREIGN KEY (session, parent) REFERENCES espalier.line (session, id),
  CONSTRAINT line_body CHECK ((line IS NULL) <> (raw IS NULL))
);
-- For the deletion of sessions. The session is the last column, because no query finds an entry by this index.
CREATE INDEX IF NOT EXISTS line_children ON espalier.line (parent, session) WHERE parent IS NOT NULL;

CREATE TABLE IF NOT EXISTS espalier.lease (
  session text PRIMARY KEY,
  owner uuid NOT NULL,
  connection bigint NOT NULL,
  backend integer NOT NULL,
  pid integer NOT NULL,
  host text NOT NULL,
  brief boolean NOT NULL,
  since timestamptz NOT NULL,
  beat timestamptz NOT NULL,
  CONSTRAINT lease_session FOREIGN KEY (session) REFERENCES espalier.session (key) ON DELETE CASCADE
);
`,
};

/**
 * Views for reports, and for programs that expect tables of these names: `session_message` (messages of the leaf's
 * path), `session_summary` (its compactions), and `token_stats` (time of the last compaction). They show only the
 * namespace in the setting `espalier.namespace` (default: `default`). `session_id` is the name of the session, which is
 * indexed together with the namespace, so a query by it reads only that session.
 */
const views: Migration = {
  number: 2,
  name: "views",
  sql: String.raw`
CREATE OR REPLACE FUNCTION espalier.current_namespace() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce(nullif(current_setting('espalier.namespace', true), ''), 'default')
$$;

-- A value of a line. Characters that text cannot hold (NUL, a lone surrogate) are shown as U+FFFD.
CREATE OR REPLACE FUNCTION espalier.field(line text, VARIADIC path text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN line::json #>> path;
EXCEPTION WHEN untranslatable_character OR invalid_text_representation OR invalid_parameter_value THEN
  BEGIN
    RETURN regexp_replace(line, '((?:^|[^\\])(?:\\\\)*)\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g')::json #>> path;
  EXCEPTION WHEN untranslatable_character OR invalid_text_representation OR invalid_parameter_value THEN
    RETURN NULL;
  END;
END
$$;

-- The path of a session's leaf, leaf first; kept_from is the first position that its newest compaction keeps.
CREATE OR REPLACE FUNCTION espalier.leaf_path(of_session text)
RETURNS TABLE (step bigint, "position" bigint, id text, type text, first_kept text, line text, kept_from bigint)
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE newest AS (
    SELECT CASE WHEN l.type = 'leaf' THEN l.parent ELSE l.id END AS id
    FROM espalier.line l WHERE l.session = of_session AND l.id IS NOT NULL
    ORDER BY l.position DESC LIMIT 1
  ), path AS (
    SELECT 1::bigint AS step, l.moves AS begun, l.position, l.id, l.parent, l.type, l.first_kept, l.line
    FROM newest JOIN espalier.line l ON l.session = of_session AND l.id = newest.id
    UNION ALL
    SELECT path.step + 1, path.begun OR l.moves, l.position, l.id, l.parent, l.type, l.first_kept, l.line
    FROM path CROSS JOIN LATERAL (
      SELECT * FROM espalier.line WHERE session = of_session AND id = path.parent LIMIT 1
    ) AS l
  )
  SELECT path.step, path.position, path.id, path.type, path.first_kept, path.line, (
    SELECT coalesce(kept.position, hider.position)
    FROM (SELECT p.* FROM path p WHERE p.begun AND p.first_kept IS NOT NULL ORDER BY p.step LIMIT 1) AS hider
    LEFT JOIN espalier.line kept
      ON kept.session = of_session AND kept.id = hider.first_kept
  ) FROM path WHERE path.begun
$$;

${sessionViews()}`,
};

/** Returns the SQL of the views. `alsoWhere` is a condition on the sessions, in addition to the namespace. */
function sessionViews(alsoWhere = ""): string {
  return `CREATE OR REPLACE VIEW espalier.session_message AS
  SELECT path.id, s.ref AS session_id, espalier.field(path.line, 'message', 'role') AS role,
    espalier.field(path.line, 'message', 'content') AS content,
    espalier.field(path.line, 'timestamp') AS created_at,
    coalesce(path.position < path.kept_from, false) AS is_archived
  FROM espalier.session s
  CROSS JOIN LATERAL espalier.leaf_path(s.key) AS path
  WHERE s.namespace = espalier.current_namespace()${alsoWhere} AND path.type = 'message';

CREATE OR REPLACE VIEW espalier.session_summary AS
  SELECT c.id, s.ref AS session_id,
    coalesce(espalier.field(c.line, 'details', 'sessionSummary', 'summary'), espalier.field(c.line, 'summary')) AS summary,
    coalesce(espalier.field(c.line, 'details', 'sessionSummary', 'startMsgId'), covered.first) AS start_msg_id,
    coalesce(espalier.field(c.line, 'details', 'sessionSummary', 'endMsgId'), covered.last) AS end_msg_id,
    coalesce(espalier.field(c.line, 'details', 'sessionSummary', 'msgCount')::bigint, covered.count) AS msg_count,
    espalier.field(c.line, 'timestamp') AS created_at
  FROM espalier.session s
  CROSS JOIN LATERAL espalier.leaf_path(s.key) AS c
  LEFT JOIN espalier.line kept ON kept.session = s.key AND kept.id = c.first_kept
  CROSS JOIN LATERAL (
    SELECT (array_agg(m.id ORDER BY m.position))[1] AS first, (array_agg(m.id ORDER BY m.position DESC))[1] AS last,
      count(*) AS count
    FROM espalier.leaf_path(s.key) AS m
    WHERE m.type = 'message' AND m.position < coalesce(kept.position, c.position)
  ) AS covered
  WHERE s.namespace = espalier.current_namespace()${alsoWhere} AND c.first_kept IS NOT NULL;

CREATE OR REPLACE VIEW espalier.token_stats AS
  SELECT s.ref AS session_id, s.last_compaction FROM espalier.session s
  WHERE s.namespace = espalier.current_namespace()${alsoWhere};
`;
}

/**
 * Originals of upgraded sessions. An original is a session of its own that refers to its upgraded session, is removed
 * with it, and is in no list and no view.
 */
const originals: Migration = {
  number: 3,
  name: "originals",
  sql: `
ALTER TABLE espalier.session ADD COLUMN IF NOT EXISTS original_of text
  CONSTRAINT session_original REFERENCES espalier.session (key) ON DELETE CASCADE;
CREATE INDEX IF NOT EXISTS session_originals ON espalier.session (original_of) WHERE original_of IS NOT NULL;

${sessionViews(" AND s.original_of IS NULL")}`,
};

/**
 * Id in a session's header when it differs from the name, so that a session is found by both; empty for an id that
 * cannot be a key. Older programs leave the column empty, and name sessions by their ids.
 */
const ids: Migration = {
  number: 4,
  name: "ids",
  sql: `
ALTER TABLE espalier.session ADD COLUMN IF NOT EXISTS id text;

WITH head AS (
  SELECT s.key, s.ref, coalesce(espalier.field(l.line, 'id'), '') AS id
  FROM espalier.session s LEFT JOIN espalier.line l ON l.session = s.key AND l.position = 0
)
UPDATE espalier.session s SET id = CASE WHEN length(head.id) <= 256 THEN head.id ELSE '' END
FROM head WHERE s.key = head.key AND head.id <> head.ref;

CREATE INDEX IF NOT EXISTS session_id ON espalier.session (namespace, coalesce(id, ref)) WHERE original_of IS NULL;
`,
};

const migrations: readonly Migration[] = [tables, views, originals, ids];

/** One step in the history of the tables. A published step is never changed; later changes are new steps. */
interface Migration {
  /** Number from 1, without gaps. */
  number: number;
  name: string;
  /** Statements that can be run again without harm. */
  sql: string;
}
