import {
  type Entry,
  entryKinds,
  kindOf,
  type PathWindow,
  PathWindowBuilder,
  readSessionLine,
} from "@espalier/session-tree";
import type { Database } from "./database.ts";
import { bytesOfLine, type FetchedLine } from "./fetch-lines.ts";
import { persistently } from "./persistently.ts";
import type { SessionPlace } from "./session-place.ts";

/** Entries that the first walk beyond the newest compaction passes; each one after passes twice as many. */
const FIRST_STRETCH = 256;

/** The place that the last line of a session means: a leaf's parent is its target. */
const LAST = {
  name: "espalier-last",
  text: `SELECT CASE WHEN type = 'leaf' THEN parent ELSE id END AS id FROM espalier.line
    WHERE session = $1 AND position < $2 AND id IS NOT NULL ORDER BY position DESC LIMIT 1`,
};

/**
 * Up from an entry to the first one that the newest compaction keeps, or to a root. Each step looks up one parent by its key,
 * whatever the planner believes of the tables: that is what `LATERAL … LIMIT 1` is for.
 */
const WALK = {
  name: "espalier-walk",
  text: `WITH RECURSIVE path AS (
    SELECT 1 AS step, id, parent, line, raw, first_kept AS sought FROM espalier.line
    WHERE session = $1 AND id = $2 AND position < $3
    UNION ALL
    SELECT path.step + 1, up.id, up.parent, up.line, up.raw, coalesce(path.sought, up.first_kept)
    FROM path CROSS JOIN LATERAL (SELECT * FROM espalier.line WHERE session = $1 AND id = path.parent LIMIT 1) AS up
    WHERE path.id IS DISTINCT FROM path.sought
  )
  SELECT parent, line, raw FROM path ORDER BY step`,
};

/** Further up, so many steps; only lines of some types, and where it ended. */
const STRETCH = {
  name: "espalier-stretch",
  text: `WITH RECURSIVE path AS (
    SELECT 1 AS step, id, parent, type FROM espalier.line WHERE session = $1 AND id = $2
    UNION ALL
    SELECT path.step + 1, up.id, up.parent, up.type
    FROM path CROSS JOIN LATERAL (SELECT * FROM espalier.line WHERE session = $1 AND id = path.parent LIMIT 1) AS up
    WHERE path.step < $3
  )
  SELECT path.parent, own.line, own.raw FROM path
  LEFT JOIN LATERAL (SELECT * FROM espalier.line WHERE session = $1 AND id = path.id LIMIT 1) AS own
    ON path.type = ANY ($4)
  ORDER BY step`,
};

interface Step extends FetchedLine {
  parent: string | null;
}

/**
 * The end of a path of a plain session, as much as a context needs; the rest of the session is not looked at.
 * Undefined when there is no entry `leafId`.
 *
 * @param lines how many lines of the session are seen
 */
export async function readPath(
  database: Database,
  { key }: SessionPlace,
  lines: number,
  leafId?: string,
): Promise<PathWindow | undefined> {
  const start = leafId ?? (await lastPlace(database, [key, lines]));
  const builder = new PathWindowBuilder();
  if (start === null) return builder.finish(null);
  const steps = await persistently(database, () => database.query<Step>(WALK, [key, start, lines]));
  if (steps.length === 0) return undefined;
  let leaf: string | null = null;
  for (const step of steps) {
    const entry = entryOf(step);
    if (leaf === null && !kindOf(entry).movesLeaf) continue;
    leaf ??= entry.id;
    builder.take(entry);
  }
  let next = steps.at(-1)!.parent;
  for (let length = FIRST_STRETCH; next !== null && leaf !== null && !builder.done; length *= 2) {
    const wanted = entryKinds.map(({ type }) => type).filter((type) => builder.needs(type));
    const values = [key, next, length, wanted];
    const further = await persistently(database, () => database.query<Step>(STRETCH, values));
    for (const step of further)
      if (!builder.done && (step.line !== null || step.raw !== null)) builder.take(entryOf(step));
    next = further.at(-1)?.parent ?? null;
  }
  return builder.finish(leaf);
}

async function lastPlace(database: Database, values: readonly unknown[]): Promise<string | null> {
  const [last] = await persistently(database, () => database.query<{ id: string | null }>(LAST, values));
  return last?.id ?? null;
}

function entryOf(step: Step): Entry {
  const line = readSessionLine(bytesOfLine(step));
  // Only what was read as an entry when it was written has an id to be found by.
  return (line as Extract<typeof line, { is: "entry" }>).entry;
}
