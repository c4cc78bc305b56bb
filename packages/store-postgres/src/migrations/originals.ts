import type { Migration } from "./migration.ts";

/**
 * What a session was in an old format, kept beside it once it was brought to the current one: a session of its own, which
 * names the one it belongs to, goes with it, and is in no list and no view.
 */
export const originals: Migration = {
  number: 3,
  name: "originals",
  sql: `
ALTER TABLE espalier.session ADD COLUMN IF NOT EXISTS original_of text
  CONSTRAINT session_original REFERENCES espalier.session (key) ON DELETE CASCADE;
CREATE INDEX IF NOT EXISTS session_originals ON espalier.session (original_of) WHERE original_of IS NOT NULL;

CREATE OR REPLACE VIEW espalier.session_message AS
  SELECT path.id, s.ref AS session_id, espalier.field(path.line, 'message', 'role') AS role,
    espalier.field(path.line, 'message', 'content') AS content,
    espalier.field(path.line, 'timestamp') AS created_at,
    coalesce(path.position < path.kept_from, false) AS is_archived
  FROM espalier.session s
  CROSS JOIN LATERAL espalier.leaf_path(s.key) AS path
  WHERE s.namespace = espalier.current_namespace() AND s.original_of IS NULL AND path.type = 'message';

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
  WHERE s.namespace = espalier.current_namespace() AND s.original_of IS NULL AND c.first_kept IS NOT NULL;

CREATE OR REPLACE VIEW espalier.token_stats AS
  SELECT s.ref AS session_id, s.last_compaction FROM espalier.session s
  WHERE s.namespace = espalier.current_namespace() AND s.original_of IS NULL;
`,
};
