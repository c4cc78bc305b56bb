// Separate from postgres-store.ts: a log is one session, the store is all of them.
import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import {
  closedError,
  type Entry,
  entryKinds,
  FORMAT_VERSION,
  GrowingBytes,
  kindOf,
  type LineAppendOptions,
  type LogAppend,
  type OpenMode,
  type PathWindow,
  PathWindowBuilder,
  readOnlyError,
  readPathWindow,
  readSessionLine,
  type SessionHeader,
  type SessionLog,
  Turns,
  type UpgradedLog,
  upgradeLog,
} from "@espalier/session-tree";
import { type Connection, type Database, retriedQuery, retryIdempotent } from "./database.ts";
import {
  addLine,
  bytesOfLine,
  EXTENT,
  type Extent,
  type FetchedLine,
  type FoundSession,
  fetchInto,
  gone,
  type Inserted,
  insertLines,
  type LineRow,
  retryWrite,
  rowOfLine,
  type SessionPlace,
  withDoubt,
  withSessionError,
} from "./lines.ts";
import { currentState, replaced, upgradeSession } from "./sessions.ts";

/**
 * A session in the database. {@link load} fetches all of its bytes; a context needs only the end of a path. Calls run
 * one after the other, so the part that was read is always a prefix of the session.
 */
export class PostgresLog implements SessionLog {
  readonly ref: string;
  readonly header: SessionHeader | undefined;
  readonly #database: Database;
  readonly #mode: OpenMode;
  readonly #appended: () => void;
  /** Upgraded form of a session of an old format, once it was read; undefined for any other session. */
  upgraded: UpgradedLog | undefined;
  /** Row of the session, its size as last read, and whether it is plain. */
  #found: Omit<FoundSession, "header">;
  /** True for a session of an old format. It is read as a whole, and upgraded before it grows. */
  #isOld: boolean;
  #bytes: GrowingBytes | undefined;
  readonly #turns = new Turns();
  #isClosed = false;

  /** @param appended called after every append, to notify the followers of the session */
  constructor(database: Database, found: FoundSession, mode: OpenMode, appended: () => void) {
    this.ref = found.place.ref;
    this.header = found.header;
    this.#database = database;
    this.#found = { ...found };
    this.#isOld = found.header !== undefined && found.header.version < FORMAT_VERSION;
    this.#mode = mode;
    this.#appended = appended;
  }

  get view(): ByteView | undefined {
    return this.#isOld ? this.upgraded?.view : this.#bytes?.view(this.#found.extent.bytes);
  }

  load(): Promise<ByteView> {
    return this.#turns.take(() => withSessionError("unreadable", () => this.#loaded()));
  }

  readPath(leafId?: string): Promise<PathWindow> {
    return this.#turns.take(() =>
      withSessionError("unreadable", async () => {
        const isCheap = this.#found.isPlain && !this.#bytes;
        const path = isCheap
          ? await readPath(this.#database, this.#found.place, this.#found.extent.lines, leafId)
          : undefined;
        // The error for a wrong id names similar ids, for which all ids are needed.
        return path ?? readPathWindow(await this.#loaded(), leafId);
      }),
    );
  }

  append(lines: readonly string[], { ifUnchanged = false }: LineAppendOptions = {}): Promise<LogAppend> {
    return this.#turns.take(async () => {
      this.#assertWritable();
      const from = await this.#size();
      if (lines.length === 0) return { offset: from, length: 0, from, to: from };
      const given = lines.map((line) => rowOfLine(line));
      if (this.#isOld) await withSessionError("write-failed", () => this.#makeCurrent());
      const rows = settled(given, this.#found.isPlain);
      const { start, end, isWhole } = await withSessionError("write-failed", () =>
        appendLines(this.#database, this.#found.place, rows, this.#found.extent.lines, ifUnchanged),
      );
      this.#found.isPlain &&= rows.every(({ isPlain }) => isPlain);
      const isOnlyOwn = isWhole && start.lines === this.#found.extent.lines;
      await withSessionError("unreadable", () =>
        this.#see(end, isOnlyOwn ? rows : undefined).catch((error: unknown) => {
          throw withDoubt(error, DOUBT);
        }),
      ).finally(this.#appended);
      const offset = Math.max(start.bytes, from);
      const ownEnd = rows.reduce((at, { bytes }) => at + bytes.length + 1, start.bytes);
      return { offset, length: Math.max(ownEnd - offset, 0), from, to: end.bytes };
    });
  }

  takeIn(): Promise<{ from: number; to: number } | null> {
    return this.#turns.take(() =>
      withSessionError("unreadable", async () => {
        const { place } = this.#found;
        const now = await retryIdempotent(this.#database, () => currentState(this.#database, place));
        if (!now) throw this.#isOld ? replaced(this.ref) : gone(this.ref);
        if (this.#isOld) return null;
        const { bytes: from } = this.#found.extent;
        this.#found.isPlain = now.isPlain;
        await this.#see(now.extent);
        return this.#found.extent.bytes > from ? { from, to: this.#found.extent.bytes } : null;
      }),
    );
  }

  /**
   * Waits for earlier calls; every acknowledged append is on the server's disk already (`PINNED` of the connections).
   * @throws EspalierError `closed`
   */
  flush(): Promise<void> {
    return this.#turns.take(async () => {
      if (this.#isClosed) throw closedError();
    });
  }

  close(): Promise<void> {
    return this.#turns.take(async () => {
      this.#isClosed = true;
    });
  }

  async #loaded(): Promise<ByteView> {
    if (!this.#bytes) {
      const bytes = new GrowingBytes(new Uint8Array());
      await fetchInto(bytes, this.#database, this.#found.place, { lines: 0, bytes: 0 }, this.#found.extent);
      if (this.#isOld && bytes.size !== this.#found.extent.bytes) throw replaced(this.ref);
      this.#bytes = bytes;
    }
    const view = this.#bytes.view(this.#found.extent.bytes);
    if (!this.#isOld) return view;
    this.upgraded ??= upgradeLog(view, this.header);
    return this.upgraded!.view;
  }

  /** Returns the size of the bytes in the view. */
  async #size(): Promise<number> {
    if (!this.#isOld) return this.#found.extent.bytes;
    return (await withSessionError("unreadable", () => this.#loaded())).size;
  }

  async #makeCurrent(): Promise<void> {
    const { view } = this.upgraded!;
    const { place, extent } = this.#found;
    this.#found = await upgradeSession(this.#database, place, extent, this.upgraded!);
    this.#bytes = new GrowingBytes(view.read(0, view.size));
    this.#isOld = false;
    this.upgraded = undefined;
  }

  /** Extends the part that was read to `end`. `own` has the new lines when they are known. */
  async #see(end: Extent, own?: readonly LineRow[]): Promise<void> {
    const bytes = this.#bytes;
    // A failed call may have fetched more bytes than count as read.
    if (bytes) bytes.size = this.#found.extent.bytes;
    if (bytes && own) for (const row of own) addLine(bytes, row.bytes);
    else if (bytes) await fetchInto(bytes, this.#database, this.#found.place, this.#found.extent, end);
    this.#found.extent = end;
  }

  #assertWritable(): void {
    if (this.#isClosed) throw closedError();
    if (this.#mode === "read") throw readOnlyError();
  }
}

/**
 * Returns rows with a parent only if the table can check it. In a session that is not plain, rows have no parent,
 * because the parent may be on a line without keys. A parent has to be above its children, also within a batch.
 */
function settled(rows: readonly LineRow[], isPlain: boolean): LineRow[] {
  const below = new Map<string, number>();
  for (const { id } of rows) if (id !== null) below.set(id, (below.get(id) ?? 0) + 1);
  return rows.map((row) => {
    const isAbove = row.parent === null || !below.get(row.parent);
    if (row.id !== null) below.set(row.id, below.get(row.id)! - 1);
    if (isPlain && isAbove) return row;
    return { ...row, parent: null, isPlain: row.isPlain && isAbove };
  });
}

/** Result of an append: the range of the lines that it wrote or found. */
interface Appended extends Inserted {
  /** True when this call wrote all of the lines, and found none of them. */
  isWhole: boolean;
}

/**
 * Appends lines, once for any number of attempts. An id is unique within a session, so after a lost connection the
 * committed lines are found, and a line with the same text counts as written.
 *
 * @param seen number of lines of the session that were read
 * @param ifUnchanged true to write nothing when the session has more lines
 * @throws EspalierError `moved`; `duplicate-id` when another line has the id; `unknown-parent`, `removed`;
 * `unreachable`, `timeout`, `refused`
 */
async function appendLines(
  database: Database,
  place: SessionPlace,
  rows: readonly LineRow[],
  seen: number,
  ifUnchanged: boolean,
): Promise<Appended> {
  const onlyBehind = ifUnchanged ? seen : undefined;
  try {
    return await retryWrite(database, DOUBT, async (attempt) => {
      try {
        if (attempt === 1)
          return { ...(await insertLines(database, place, rows, onlyBehind)), isWhole: true };
      } catch (error) {
        if (!breaks(error, "line_id")) throw error;
      }
      // The lines can be from an earlier attempt whose result was lost.
      return await database.transaction((connection) =>
        appendMissing(connection, place, rows, seen, onlyBehind),
      );
    });
  } catch (error) {
    throw breaks(error, "line_parent") ? unknownParent(error as EspalierError) : error;
  }
}

const DOUBT = "The lines may have been written all the same; open the session again to see them.";

/**
 * Appends the lines of a batch that are missing. Lines are found by their ids; a line whose id is not in the table is
 * found by its text, among the lines that were not read yet.
 */
async function appendMissing(
  connection: Connection,
  place: SessionPlace,
  rows: readonly LineRow[],
  seen: number,
  onlyBehind: number | undefined,
): Promise<Appended> {
  const { key, ref, made } = place;
  // The row lock keeps other writers from appending until the commit, so missing lines stay missing.
  const [held] = await connection.query<Extent>(
    { text: `SELECT ${EXTENT} FROM espalier.session WHERE key = $1 AND made = $2 FOR UPDATE` },
    [key, made],
  );
  if (!held) throw gone(ref);
  const found = await connection.query<Pick<LineRow, "id" | "line"> & { position: number; at: number }>(
    {
      text: `SELECT id, line, position::float8 AS position, at::float8 AS at FROM espalier.line
        WHERE session = $1 AND (id = ANY ($2) OR (id IS NULL AND line = ANY ($3) AND position >= $4))`,
    },
    [key, rows.map(({ id }) => id), rows.map(({ line }) => line), seen],
  );
  const taken = new Map(found.map((row) => [nameOf(row), row.line]));
  const missing: LineRow[] = [];
  for (const row of rows) {
    const line = taken.get(nameOf(row));
    if (line === undefined) missing.push(row);
    else if (line !== row.line) throw duplicate(row.id!);
    if (row.id !== null) taken.set(row.id, row.line);
  }
  if (missing.length > 0)
    return { ...(await insertLines(connection, place, missing, onlyBehind)), isWhole: false };
  const lines = Math.min(...found.map(({ position }) => position));
  const bytes = Math.min(...found.map(({ at }) => at));
  return { start: { lines, bytes }, end: held, isWhole: false };
}

const nameOf = ({ id, line }: Pick<LineRow, "id" | "line">): string | null => id ?? line;

const breaks = (error: unknown, constraint: string): boolean =>
  error instanceof EspalierError && error.constraint === constraint;

const duplicate = (id: string) =>
  new EspalierError(
    "duplicate-id",
    `There is another entry ${JSON.stringify(id)} already; leave the id out to get a fresh one.`,
  );

const unknownParent = (cause: EspalierError) =>
  new EspalierError(
    "unknown-parent",
    "The parent of an entry is not in this session; append it first, or name one that is.",
    { cause },
  );

/** Number of entries in the first step of a walk beyond the newest compaction. Each later step has twice as many. */
const FIRST_STRETCH = 256;

/** Selects the entry that the last line names as the leaf. The parent of a leaf entry is its target. */
const LAST = {
  name: "espalier-last",
  text: `SELECT CASE WHEN type = 'leaf' THEN parent ELSE id END AS id FROM espalier.line
    WHERE session = $1 AND position < $2 AND id IS NOT NULL ORDER BY position DESC LIMIT 1`,
};

/**
 * Walks up from an entry to the first entry that the newest compaction keeps, or to a root. `LATERAL … LIMIT 1` makes
 * each step look up one parent by its key, whatever the planner estimates.
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

/** Walks further up for a number of steps. Returns only the lines of some types, and the last parent. */
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
 * Reads the entries of a path that its context needs, without the other lines of the session. The session has to be
 * plain. Undefined when there is no entry `leafId`.
 *
 * @param lines number of lines of the session that count as read
 */
async function readPath(
  database: Database,
  { key }: SessionPlace,
  lines: number,
  leafId?: string,
): Promise<PathWindow | undefined> {
  const [last] =
    leafId === undefined
      ? await retriedQuery<{ id: string | null }>(database, LAST, [key, lines])
      : [{ id: leafId }];
  const start = last?.id ?? null;
  const builder = new PathWindowBuilder();
  if (start === null) return builder.finish(null);
  const steps = await retriedQuery<Step>(database, WALK, [key, start, lines]);
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
    const further = await retriedQuery<Step>(database, STRETCH, values);
    for (const step of further)
      if (!builder.done && (step.line !== null || step.raw !== null)) builder.take(entryOf(step));
    next = further.at(-1)?.parent ?? null;
  }
  return builder.finish(leaf);
}

function entryOf(step: Step): Entry {
  const line = readSessionLine(bytesOfLine(step));
  // Only lines that were read as an entry when they were written have an id.
  return (line as Extract<typeof line, { is: "entry" }>).entry;
}
