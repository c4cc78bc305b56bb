import type { Migration } from "./migration.ts";

/**
 * Sessions as tables, for reports and for programs that know them so: messages of the leaf's path, summaries, and when
 * a session was compacted last. They show one namespace, that of the setting `espalier.namespace`, and nothing of
 * another; sessions are found by namespace and name, so that a query by `session_id` reads that session alone.
 */
export const views: Migration = {
  number: 2,
  name: "views",
  sql: String.raw`
CREATE OR REPLACE FUNCTION espalier.current_namespace() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce(nullif(current_setting('espalier.namespace', true), ''), 'default')
$$;

-- A value of a line. Characters that text cannot hold (NUL, half a surrogate pair) are shown as U+FFFD.
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

CREATE OR REPLACE VIEW espalier.session_message AS
  SELECT path.id, s.ref AS session_id, espalier.field(path.line, 'message', 'role') AS role,
    espalier.field(path.line, 'message', 'content') AS content,
    espalier.field(path.line, 'timestamp') AS created_at,
    coalesce(path.position < path.kept_from, false) AS is_archived
  FROM espalier.session s
  CROSS JOIN LATERAL espalier.leaf_path(s.key) AS path
  WHERE s.namespace = espalier.current_namespace() AND path.type = 'message';

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
  WHERE s.namespace = espalier.current_namespace() AND c.first_kept IS NOT NULL;

CREATE OR REPLACE VIEW espalier.token_stats AS
  SELECT s.ref AS session_id, s.last_compaction FROM espalier.session s
  WHERE s.namespace = espalier.current_namespace();
`,
};
