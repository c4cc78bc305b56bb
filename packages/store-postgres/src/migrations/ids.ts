import type { Migration } from "./migration.ts";

/**
 * The id of a session's header where it is not its name, so that a session is found by either; empty for an id that is
 * no key. A program of before leaves the column out, and names sessions by their ids.
 */
export const ids: Migration = {
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
