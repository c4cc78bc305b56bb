import { SessionTreeError } from "@espalier/session-tree";
import type { Connection, Database } from "./database.ts";
import { gone, type Inserted, insertLines } from "./insert-lines.ts";
import type { LineRow } from "./line-row.ts";
import { persistently } from "./persistently.ts";
import { PostgresStoreError } from "./postgres-store-error.ts";
import { type ExtentRow, extentOf, type SessionPlace } from "./session-place.ts";

/** What an append did: where the lines begin that it wrote, or, where all were there already, those. */
export interface Appended extends Inserted {
  /** Whether this call wrote all of the lines, and nothing was there already. */
  isWhole: boolean;
}

/**
 * Appends lines, once however often it is tried: an id is taken only once in a session, so after a lost connection the
 * lines that had been committed are found, and a line of the same text counts as written.
 *
 * @param onlyBehind lines that the session has to have; where it has others, nothing is written
 * @throws SessionTreeError `moved`; `duplicate-id` where an id belongs to another line; `unknown-parent`, `removed`;
 *   PostgresStoreError `unreachable`, `timeout`, `refused`
 */
export async function appendLines(
  database: Database,
  place: SessionPlace,
  rows: readonly LineRow[],
  onlyBehind?: number,
): Promise<Appended> {
  try {
    return await persistently(database, async (attempt) => {
      try {
        return { ...(await insertLines(database, place, rows, onlyBehind)), isWhole: true };
      } catch (error) {
        const hasMoved = error instanceof SessionTreeError && error.code === "moved";
        // They may be what an attempt wrote whose end nobody heard of.
        if (hasMoved ? attempt === 1 || !(await isWritten(database, place, rows)) : !breaks(error, "line_id"))
          throw error;
        return await database.transaction((connection) => appendMissing(connection, place, rows));
      }
    });
  } catch (error) {
    if (breaks(error, "line_parent")) throw unknownParent(error as PostgresStoreError);
    throw error;
  }
}

/** Whether all lines that have an id are there: they were written together, or not at all. */
async function isWritten(
  connection: Connection,
  { key }: SessionPlace,
  rows: readonly LineRow[],
): Promise<boolean> {
  const ids = rows.flatMap(({ id }) => (id === null ? [] : [id]));
  const found = await connection.query<{ id: string }>(
    { text: "SELECT id FROM espalier.line WHERE session = $1 AND id = ANY ($2)" },
    [key, ids],
  );
  return ids.length > 0 && found.length === ids.length;
}

/** Adds what is not there of a batch whose ids are taken, in part or all. */
async function appendMissing(
  connection: Connection,
  place: SessionPlace,
  rows: readonly LineRow[],
): Promise<Appended> {
  const { key, ref, made } = place;
  // Nobody appends from here to the commit: what is not there now is not there when it is inserted.
  const [held] = await connection.query<ExtentRow>(
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
  if (missing.length > 0) return { ...(await insertLines(connection, place, missing)), isWhole: false };
  const first = Math.min(...found.map(({ position }) => Number(position)));
  const start = Math.min(...found.map(({ at }) => Number(at)));
  return { start: { lines: first, bytes: start }, end: extentOf(held), isWhole: false };
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
