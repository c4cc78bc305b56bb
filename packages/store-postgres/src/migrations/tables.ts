import type { Migration } from "./migration.ts";

/**
 * Sessions and their lines. A line is `text`, not `jsonb`, which reorders keys and refuses `\u0000`; `raw` has the bytes
 * of one that is no text. `position` counts the lines of a session without gaps, `at` is the line's first byte. What
 * stands beside is told from the line when it is written: `moves` whether the leaf can be there, `first_kept` what a
 * compaction keeps. Every key begins with the session's, and that with its namespace. A session is `plain` while every line is an entry whose id is its own and whose parent is above it.
 */
export const tables: Migration = {
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
-- For who removes sessions. The session stands last: nobody shall look for an entry here.
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
