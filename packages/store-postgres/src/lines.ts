import { isUtf8 } from "node:buffer";
import { type ByteView, EspalierError, type EspalierErrorCode, scanLines } from "@espalier/jsonl-stream";
import {
  compaction,
  type Entry,
  FORMAT_VERSION,
  GrowingBytes,
  grown,
  isMessage,
  kindOf,
  listedMessage,
  parsedHeader,
  readLineParts,
  type SessionHeader,
  sessionInfo,
  upgradeLog,
  withSentence,
} from "@espalier/session-tree";
import { type Connection, type Database, retriedQuery, retryIdempotent } from "./database.ts";

/** A line as the table has it. */
export interface FetchedLine {
  /** The line when it is text; otherwise null, and `raw` has it. */
  line: string | null;
  raw: Uint8Array | null;
}

/** A line in the form of the table's columns. */
export interface LineRow extends FetchedLine {
  /** Null for a line that is not an entry, or whose id cannot be a key or is on another line. */
  id: string | null;
  parent: string | null;
  type: string | null;
  /** True when the entry can be the leaf; null for a line that is not a single entry with valid keys. */
  moves: boolean | null;
  /** First entry that a compaction keeps; null for any other line. */
  firstKept: string | null;
  /** Bytes of the line without its newline. */
  bytes: Uint8Array;
  /** Entries on the line. Several when newlines were lost. */
  entries: readonly Entry[];
  /** False for a line that can only be interpreted by reading the whole session. */
  isPlain: boolean;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns the row of a line. @throws EspalierError `invalid-entry` when the line contains a newline */
export function rowOfLine(line: string | Uint8Array): LineRow {
  const bytes = typeof line === "string" ? encoder.encode(line) : line;
  if (bytes.includes(10)) {
    throw new EspalierError(
      "invalid-entry",
      "A line contains a newline; write JSON text without indentation.",
    );
  }
  const isText = isUtf8(bytes) && !bytes.includes(0);
  const body = { line: isText ? decoder.decode(bytes) : null, raw: isText ? null : bytes, bytes };
  const none = { id: null, parent: null, type: null, moves: null, firstKept: null };
  const parts = readLineParts(bytes);
  const entries = parts.flatMap((part) => (part.is === "entry" ? [part.entry] : []));
  const [entry] = entries;
  const isBlank = parts.every(({ is }) => is === "blank");
  if (!entry || parts.length > 1) return { ...none, ...body, entries, isPlain: isBlank };
  const kind = kindOf(entry);
  const firstKept = (kind.problem?.(entry) ? undefined : kind.firstKept?.(entry)) ?? null;
  const named = [entry.id, entry.parentId, entry.type, firstKept];
  if (!isText || !named.every(isKeyable)) return { ...none, ...body, entries, isPlain: false };
  const target = kind.leafTarget?.(entry);
  return {
    id: entry.id,
    parent: entry.parentId,
    type: entry.type,
    moves: kind.movesLeaf,
    firstKept,
    ...body,
    entries,
    // The table uses a leaf entry's parent as its target, like older readers.
    isPlain: target === undefined || target === entry.parentId,
  };
}

/** Returns the row of the header's line. */
export function rowOfHeader(line: string): LineRow {
  return { ...rowOfLine(line), isPlain: true };
}

/**
 * Returns the rows of a header and lines. For a session of an old format, each row has the original line, and the
 * columns for lists and reports from its upgraded form. Such a session is read as a whole.
 */
export function rowsOf(header: string, lines: Iterable<string | Uint8Array>): LineRow[] {
  const { version } = parsedHeader(header);
  if (version >= FORMAT_VERSION) return [rowOfHeader(header), ...plainRows(lines)];
  const stored = [header, ...lines].map((line) => rowOfLine(line));
  const bytes = new GrowingBytes(new Uint8Array());
  for (const row of stored) addLine(bytes, row.bytes);
  const current = currentRows(upgradeLog(bytes.view(), parsedHeader(header))!.view);
  return stored.map(({ line, raw, bytes }, at) => ({ ...current[at]!, line, raw, bytes, isPlain: false }));
}

/** Returns the rows of a session of an old format in upgraded form. */
export function currentRows(view: ByteView): LineRow[] {
  const [header, ...lines] = Array.from(scanLines(view), ({ bytes }) => bytes.slice());
  return [rowOfHeader(decoder.decode(header)), ...plainRows(lines)];
}

/**
 * Returns rows with unique ids and with parents above them, as the table's keys require. Any other line gets no keys,
 * and the session is then read as a whole.
 */
function plainRows(lines: Iterable<string | Uint8Array>): LineRow[] {
  const above = new Set<string>();
  const rows: LineRow[] = [];
  for (const line of lines) {
    const row = rowOfLine(line);
    const isTaken = row.id !== null && above.has(row.id);
    const isOrphan = row.parent !== null && !above.has(row.parent);
    if (row.id !== null) above.add(row.id);
    rows.push({
      ...row,
      id: isTaken ? null : row.id,
      parent: isTaken || isOrphan ? null : row.parent,
      isPlain: row.isPlain && !isTaken && !isOrphan,
    });
  }
  return rows;
}

/**
 * Returns whether a text can be stored in a key column: null, or at most 256 characters without those that the column
 * cannot hold.
 */
export function isKeyable(text: string | null): boolean {
  return text === null || (text.length <= LONGEST_KEY && !/\0|\p{Surrogate}/u.test(text));
}

/** Maximum length of an id or a name in characters, so that an index entry has room for it and the other parts of its key. */
export const LONGEST_KEY = 256;

/** Maximum bytes and lines that one statement fetches. A longer line is fetched alone. */
const PAGE_BYTES = 4 * 1024 * 1024;
const PAGE_LINES = 10_000;

const FETCH = {
  name: "espalier-fetch",
  text: `SELECT line, raw FROM espalier.line
    WHERE session = $1 AND position >= $2 AND position < $3 AND at < $4 ORDER BY position`,
};

/**
 * Adds the lines of `[from, to)` to `bytes`, page by page. `bytes` has to end at `from`. Throws EspalierError `removed`
 * when lines are missing.
 */
export async function fetchInto(
  bytes: GrowingBytes,
  database: Database,
  { key, ref }: SessionPlace,
  from: Extent,
  to: Extent,
): Promise<void> {
  const at = { ...from };
  while (at.lines < to.lines) {
    const end = Math.min(to.lines, at.lines + PAGE_LINES);
    const values = [key, at.lines, end, at.bytes + PAGE_BYTES];
    const rows = await retriedQuery<FetchedLine>(database, FETCH, values);
    if (rows.length === 0) throw gone(ref);
    for (const line of rows.map(bytesOfLine)) {
      addLine(bytes, line);
      at.lines++;
      at.bytes += line.length + 1;
    }
  }
}

export function bytesOfLine({ line, raw }: FetchedLine): Uint8Array {
  return line === null ? new Uint8Array(raw!) : encoder.encode(line);
}

/** Fields of a row that are columns of the table, with their types. */
const COLUMNS = {
  id: "text",
  parent: "text",
  type: "text",
  moves: "boolean",
  firstKept: "text",
  line: "text",
  raw: "bytea",
} as const;
const FIELDS = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[];

/**
 * Returns SQL that inserts the lines of values from `$first` on (see {@link lineValues}) into the session of `source`,
 * which has the columns `key`, `first_line` and `first_byte`.
 */
export const insertFrom = (source: string, first: number): string => {
  const types = ["bigint", ...Object.values(COLUMNS)];
  const arrays = types.map((type, at) => `$${first + at}::${type}[]`).join(", ");
  return `INSERT INTO espalier.line (session, position, at, id, parent, type, moves, first_kept, line, raw)
    SELECT key, first_line + row.number - 1, first_byte + row.at, row.id, row.parent, row.type, row.moves,
      row.first_kept, row.line, row.raw
    FROM ${source}, unnest(${arrays}) WITH ORDINALITY
      AS row (at, id, parent, type, moves, first_kept, line, raw, number)`;
};

/** Returns lines as the values of a statement, and the facts that they add to their session. */
export function lineValues(rows: readonly LineRow[]) {
  const starts: number[] = [];
  let bytes = 0;
  for (const row of rows) {
    starts.push(bytes);
    bytes += row.bytes.length + 1;
  }
  const values = [starts, ...FIELDS.map((field) => rows.map((row) => row[field]))];
  return { values, bytes, isPlain: rows.every(({ isPlain }) => isPlain), facts: factsOf(rows) };
}

/**
 * Adds lines and updates the session's counters in one statement. The session's row is the counter, and its lock is
 * held until the commit. So positions and bytes have no gaps and are in the order of the commits.
 */
const INSERT = {
  name: "espalier-insert",
  text: `WITH counter AS (
    UPDATE espalier.session SET
      lines = lines + $3, bytes = bytes + $4, modified = clock_timestamp(), plain = plain AND $5,
      name = coalesce($6, name), first_message = coalesce(first_message, $7),
      updated_at = coalesce($8, updated_at), last_compaction = coalesce($9, last_compaction)
    WHERE key = $1 AND made = $2 AND ($18::bigint IS NULL OR lines = $18)
    RETURNING key, lines - $3 AS first_line, bytes - $4 AS first_byte
  ), inserted AS (
    ${insertFrom("counter", 10)}
  )
  SELECT first_line::float8 AS lines, first_byte::float8 AS bytes FROM counter`,
};

/** Range of inserted lines. */
export interface Inserted {
  /** Extent of the session before them. */
  start: Extent;
  /** Extent of the session with them. */
  end: Extent;
}

/**
 * Adds lines after the last one.
 *
 * @param onlyBehind number of lines that the session must have; default: any number
 * @throws EspalierError `refused` with a `constraint`; `removed`, `moved`
 */
export async function insertLines(
  connection: Connection,
  { key, ref, made }: SessionPlace,
  rows: readonly LineRow[],
  onlyBehind?: number,
): Promise<Inserted> {
  const { values, bytes, isPlain, facts } = lineValues(rows);
  const [start] = await connection.query<Extent>(INSERT, [
    key,
    made,
    rows.length,
    bytes,
    isPlain,
    ...facts,
    ...values,
    onlyBehind ?? null,
  ]);
  if (!start) throw await whyNone(connection, { key, ref, made }, onlyBehind);
  return { start, end: { lines: start.lines + rows.length, bytes: start.bytes + bytes } };
}

async function whyNone(
  connection: Connection,
  { key, ref, made }: SessionPlace,
  onlyBehind: number | undefined,
): Promise<EspalierError> {
  if (onlyBehind === undefined) return gone(ref);
  const there = await connection.query(
    { text: "SELECT 1 AS there FROM espalier.session WHERE key = $1 AND made = $2" },
    [key, made],
  );
  return there.length === 0 ? gone(ref) : grown(ref);
}

/** Error for a session that was removed, or replaced by another one. */
export const gone = (ref: string) =>
  new EspalierError("removed", `The session ${ref} was removed from the database; open or create another.`);

const LINE_FEED = Uint8Array.of(10);

/** Adds a line and a newline. */
export function addLine(bytes: GrowingBytes, line: Uint8Array): void {
  bytes.add(line);
  bytes.add(LINE_FEED);
}

/**
 * Runs a call on a session. Connection problems (`unreachable`, `timeout`) get the given `code`, with the same message.
 * Problems of the whole database (not migrated, access refused) keep their own code.
 */
export async function withSessionError<Result>(
  code: Extract<EspalierErrorCode, "write-failed" | "unreadable">,
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    const isSessions =
      error instanceof EspalierError && (error.code === "unreachable" || error.code === "timeout");
    if (!isSessions) throw error;
    throw new EspalierError(code, error.message, { cause: error });
  }
}

/** Same as `retryIdempotent`, for a write. When it may have been done although it failed, the error adds `doubt`. */
export async function retryWrite<Result>(
  database: Database,
  doubt: string,
  act: (attempt: number) => Promise<Result>,
): Promise<Result> {
  let mayBeDone = false;
  return retryIdempotent(database, (attempt) =>
    act(attempt).catch((error: unknown) => {
      mayBeDone ||= isLost(error);
      throw mayBeDone ? withDoubt(error, doubt) : error;
    }),
  );
}

/** Returns whether a statement may have run although its answer is missing. A refused connection has sent nothing. */
const isLost = (error: unknown): boolean =>
  error instanceof EspalierError &&
  error.code === "unreachable" &&
  (error.cause as NodeJS.ErrnoException | undefined)?.code !== "ECONNREFUSED";

/** Adds a sentence to a problem of the database. Other errors say what is written. */
export const withDoubt = (error: unknown, doubt: string): unknown =>
  error instanceof EspalierError && DATABASE_PROBLEMS.has(error.code) ? withSentence(error, doubt) : error;

const DATABASE_PROBLEMS: ReadonlySet<string> = new Set(["unreachable", "timeout", "refused"]);

/** Identity of a session in the database. */
export interface SessionPlace {
  /** First part of every key; see {@link sessionKey}. */
  key: string;
  /** The session's name in its namespace. */
  ref: string;
  /** Distinguishes the session from a later one with the same name. */
  made: string;
}

/**
 * Returns the key of a session: its namespace, which has no slash, and its name. One column, because a planner without
 * statistics takes two columns for so selective that it searches an entry by reading all lines of the session.
 */
export const sessionKey = (namespace: string, ref: string): string => `${namespace}/${ref}`;

/** Returns the namespace of a session. */
export const namespaceOf = ({ key }: SessionPlace): string => key.slice(0, key.indexOf("/"));

/** Size of a session, or of the part that was read. */
export interface Extent {
  lines: number;
  bytes: number;
}

/** SQL of an extent. Clients give 64-bit numbers as texts, and double precision as numbers. */
export const EXTENT = "lines::float8 AS lines, bytes::float8 AS bytes";

/**
 * Returns the changes of a session's listing by a batch of lines, null for unchanged columns: its name (empty when the
 * name was removed), its first message, the time of its last entry, and that of its last compaction.
 */
export function factsOf(rows: readonly LineRow[]): (string | null)[] {
  let name: string | null = null;
  let firstMessage: string | null = null;
  let updatedAt: string | null = null;
  let lastCompaction: string | null = null;
  for (const entry of rows.flatMap(({ entries }) => entries)) {
    const time = columnText(entry.timestamp) || null;
    updatedAt = time ?? updatedAt;
    if (compaction.is(entry)) lastCompaction = time ?? lastCompaction;
    if (sessionInfo.is(entry)) name = columnText(entry.name ?? "");
    if (firstMessage === null && isMessage(entry, "user"))
      firstMessage = columnText(listedMessage(entry) ?? "") || null;
  }
  return [name, firstMessage, updatedAt, lastCompaction];
}

/** Returns a text that a column can hold: NUL becomes U+FFFD. */
const columnText = (text: string): string => text.replaceAll("\0", "\ufffd");

/** A session as it was found at opening. `header` is undefined when there is no first line. */
export interface FoundSession {
  place: SessionPlace;
  header: SessionHeader | undefined;
  extent: Extent;
  isPlain: boolean;
}
