import { SessionTreeError } from "@espalier/session-tree";
import type { Connection, Database } from "./database.ts";
import { gone, insertLines } from "./insert-lines.ts";
import type { LineRow } from "./line-row.ts";
import { persistently } from "./persistently.ts";
import { PostgresStoreError } from "./postgres-store-error.ts";
import type { Extent, SessionPlace } from "./session-place.ts";

/** What an append did. */
export interface Appended {
  /** Where the own lines that were not there before begin; the end, where all were there. */
  start: Extent;
  /** What the session has behind them. */
  end: Extent;
  /** Whether this call wrote all of the lines, and nothing was there already. */
  isWhole: boolean;
}

/**
 * Appends lines, once however often it is tried: an id is taken only once in a session, so after a lost connection the
 * lines that had been committed are found, and a line of the same text counts as written.
 *
 * @throws SessionTreeError `duplicate-id` where an id belongs to another line; `unknown-parent`, `removed`;
 *   PostgresStoreError `unreachable`, `timeout`, `refused`
 */
export async function appendLines(
  database: Database,
  place: SessionPlace,
  rows: readonly LineRow[],
): Promise<Appended> {
  try {
    return await persistently(database, async () => {
      try {
        return wholly(await insertLines(database, place, rows), rows);
      } catch (error) {
        if (!breaks(error, "line_id")) throw error;
        return await database.transaction((connection) => appendMissing(connection, place, rows));
      }
    });
  } catch (error) {
    if (breaks(error, "line_parent")) throw unknownParent(error as PostgresStoreError);
    throw error;
  }
}

/** Adds what is not there of a batch whose ids are taken, in part or all. */
async function appendMissing(
  connection: Connection,
  place: SessionPlace,
  rows: readonly LineRow[],
): Promise<Appended> {
  const { key, ref, made } = place;
  // Nobody appends from here to the commit: what is not there now is not there when it is inserted.
  const [held] = await connection.query<{ lines: string; bytes: string }>(
    {
      text: "SELECT lines, bytes FROM espalier.session WHERE key = $1 AND made = $2 FOR UPDATE",
    },
    [key, made],
  );
  if (!held) throw gone(ref);
  const found = await connection.query<{ id: string; line: string | null; position: string; at: string }>(
    {
      text: "SELECT id, line, position, at FROM espalier.line WHERE session = $1 AND id = ANY ($2)",
    },
    [key, rows.map(({ id }) => id).filter((id) => id !== null)],
  );
  const taken = new Map(found.map(({ id, line }) => [id, line]));
  const missing: LineRow[] = [];
  for (const row of rows) {
    const there = row.id === null ? undefined : taken.get(row.id);
    if (there === undefined) missing.push(row);
    else if (there !== row.text) throw duplicate(row.id!);
    if (row.id !== null) taken.set(row.id, row.text);
  }
  if (missing.length > 0)
    return { ...wholly(await insertLines(connection, place, missing), missing), isWhole: false };
  const first = Math.min(...found.map(({ position }) => Number(position)));
  const start = Math.min(...found.map(({ at }) => Number(at)));
  const end = { lines: Number(held.lines), bytes: Number(held.bytes) };
  return { start: { lines: first, bytes: start }, end, isWhole: false };
}

function wholly(start: Extent, rows: readonly LineRow[]): Appended {
  const bytes = rows.reduce((sum, row) => sum + row.bytes.length + 1, 0);
  return { start, end: { lines: start.lines + rows.length, bytes: start.bytes + bytes }, isWhole: true };
}

const breaks = (error: unknown, constraint: string): boolean =>
  error instanceof PostgresStoreError && error.constraint === constraint;

const duplicate = (id: string) =>
  new SessionTreeError(
    "duplicate-id",
    `There is another entry ${JSON.stringify(id)} already; leave the id out to get a fresh one.`,
  );

const unknownParent = (cause: PostgresStoreError) =>
  new SessionTreeError(
    "unknown-parent",
    "The parent of an entry is not in this session; append it first, or name one that is.",
    { cause },
  );
