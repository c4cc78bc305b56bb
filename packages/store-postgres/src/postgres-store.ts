import { createHash, randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { formatLine } from "@espalier/jsonl-stream";
import {
  ForkLines,
  type ForkPlan,
  parsedHeader,
  type SessionHeader,
  type SessionRef,
  type SessionStore,
  sessionRef,
} from "@espalier/session-tree";
import {
  type Connection,
  type ConnectionOptions,
  checkNamespace,
  type Database,
  parseStoreAddress,
  poolDatabase,
  type ReservedConnection,
  retryIdempotent,
} from "./database.ts";
import { namesNoSession, PostgresLeases } from "./leases.ts";
import {
  bytesOfLine,
  type ExtentRow,
  extentOf,
  type FetchedLine,
  type FoundSession,
  factsOf,
  gone,
  insertLines,
  rowOfHeader,
  rowOfLine,
  type SessionPlace,
  sessionKey,
  withSessionError,
} from "./lines.ts";
import { checkVersion, type MigrationReport, migrate } from "./migrate.ts";
import { PostgresLog } from "./postgres-log.ts";
import {
  createSession,
  findSession,
  insertSession,
  isRef,
  listSessions,
  madeOnce,
  notFound,
  sessionNamed,
} from "./sessions.ts";

/** A store of sessions in a database, with additional methods for databases. */
export interface PostgresStore extends SessionStore {
  /** Namespace of the sessions. No call reaches sessions of another one. */
  readonly namespace: string;
  /**
   * Yields the lines of a session as they are appended. Yields no more lines after the session is removed. Throws
   * EspalierError `not-found`, `unreadable`.
   */
  follow(ref: SessionRef, options?: FollowOptions): AsyncGenerator<FollowedLine>;
  /** Waits for running operations and ends the connections. */
  close(): Promise<void>;
}

/** Removes a session and the originals of its upgrades. Returns the names of the originals. */
const DELETE = {
  text: `WITH removed AS (DELETE FROM espalier.session WHERE key = $1 AND made = $2)
    SELECT ref FROM espalier.session WHERE original_of = $1 ORDER BY ref`,
};

/** Returns a store for one namespace of a database. The tables must exist; `migrate` creates them. */
export function postgresStore(database: Database, namespace: string): PostgresStore {
  checkNamespace(namespace);
  const leases = new PostgresLeases(database);
  const hints = new Hints(database);
  let checked: Promise<void> | undefined;
  /** Checked once per store. A failure is not cached. */
  const ready = () => {
    checked ??= checkVersion(database).catch((error: unknown) => {
      checked = undefined;
      throw error;
    });
    return checked;
  };
  const guarded =
    (code: "unreadable" | "write-failed") =>
    <Result>(act: () => Promise<Result>): Promise<Result> =>
      withSessionError(code, async () => {
        await ready();
        return act();
      });
  const [reading, writing] = [guarded("unreadable"), guarded("write-failed")];
  const opened = (found: FoundSession, mode: "read" | "write") => {
    const channel = channelOf(found.place.key);
    return new PostgresLog(database, found, mode, () => hints.give(channel));
  };
  const find = (ref: SessionRef) => reading(() => findSession(database, namespace, ref));
  const store: PostgresStore = {
    namespace,
    create: (header, lines = [], ref) =>
      writing(async () => {
        const name = ref ?? parsedHeader(header).id;
        const source = lines instanceof ForkLines && (await sourceOf(database, namespace, header));
        const made = source
          ? await forkInside(database, namespace, source, name, parsedHeader(header), lines.plan)
          : await createSession(database, namespace, name, header, lines);
        return opened(made, "write");
      }),
    async open(ref, mode) {
      return opened(await find(ref), mode);
    },
    async *list() {
      await reading(ready);
      yield* listSessions(database, namespace);
    },
    async lease(ref, options) {
      const asked = sessionRef(ref);
      // A name is part of the key: the lease's own constraint reports a missing session.
      const isName = "file" in asked && isRef(asked.file);
      const { key, ref: name } = isName
        ? { key: sessionKey(namespace, asked.file), ref: asked.file }
        : (await find(ref)).place;
      return writing(() =>
        leases.take({ key, ref: name }, options).catch((error: unknown) => {
          if (!namesNoSession(error)) throw error;
          throw isName ? notFound(database, name) : gone(name);
        }),
      );
    },
    async delete(ref) {
      const { place } = await find(ref);
      const lease = await store.lease({ file: place.ref });
      try {
        const originals = await writing(() =>
          database.query<{ ref: string }>(DELETE, [place.key, place.made]),
        );
        return [place.ref, ...originals.map(({ ref }) => ref)];
      } finally {
        await lease.release();
      }
    },
    async *follow(ref, options = {}) {
      const { place, extent } = await find(ref);
      yield* followSession(database, place.key, options.from ?? extent.lines, options);
    },
    async close() {
      await leases.close();
      await hints.settle();
      await database.close();
    },
  };
  return store;
}

/** Returns the session from which a fork is made, if it is in this namespace and plain. */
async function sourceOf(
  database: Database,
  namespace: string,
  header: SessionHeader | string,
): Promise<SessionPlace | undefined> {
  const { parent, parentSession } = parsedHeader(header);
  const source =
    parentSession === undefined ? undefined : await sessionNamed(database, namespace, parentSession);
  return source?.isPlain && source.header?.id === parent?.sessionId ? source.place : undefined;
}

/**
 * Opens a store for one namespace of the database at an address:
 * `postgres://user:password@host:5432/database?namespace=team&sslmode=verify-full`. Connections are opened when a call needs one; `close`
 * ends them.
 *
 * @throws EspalierError `address`
 */
export function openPostgresStore(address: string, options: ConnectionOptions = {}): PostgresStore {
  const { connectionString, place, namespace } = parseStoreAddress(address);
  return postgresStore(poolDatabase(connectionString, place, options), namespace);
}

/**
 * Creates or upgrades the tables in the database at an address. Concurrent calls run one after the other; a second call
 * changes nothing.
 *
 * @throws EspalierError
 */
export async function migratePostgres(
  address: string,
  options: ConnectionOptions = {},
): Promise<MigrationReport> {
  const { connectionString, place } = parseStoreAddress(address);
  const database = poolDatabase(connectionString, place, options);
  try {
    return await migrate(database);
  } finally {
    await database.close();
  }
}

/** Copies the lines of a path after the header, in order, with new positions and offsets. */
const COPY = {
  name: "espalier-copy",
  text: `WITH RECURSIVE path AS (
    SELECT id, parent FROM espalier.line WHERE session = $1 AND id = $2
    UNION ALL
    SELECT up.id, up.parent FROM path
    CROSS JOIN LATERAL (SELECT * FROM espalier.line WHERE session = $1 AND id = path.parent LIMIT 1) AS up
  ), copied AS (
    SELECT own.*, row_number() OVER upto AS number, sum(octet_length(own.line) + 1) OVER upto AS last_byte
    FROM path CROSS JOIN LATERAL (SELECT * FROM espalier.line WHERE session = $1 AND id = path.id LIMIT 1) AS own
    WINDOW upto AS (ORDER BY own.position)
  ), counter AS (
    UPDATE espalier.session AS own SET lines = own.lines + total.lines, bytes = own.bytes + total.bytes
    FROM (SELECT count(*) AS lines, coalesce(max(last_byte), 0) AS bytes FROM copied) AS total
    WHERE own.key = $3
    RETURNING own.lines, own.bytes, own.lines - total.lines AS first_line, own.bytes - total.bytes AS first_byte
  ), inserted AS (
    INSERT INTO espalier.line (session, position, at, id, parent, type, moves, first_kept, line)
    SELECT $3, first_line + number - 1, first_byte + last_byte - octet_length(line) - 1, id, parent, type, moves,
      first_kept, line
    FROM counter, copied
  )
  SELECT lines, bytes FROM counter`,
};

/** Selects the lines from which the listing of a session is made. */
const TELLING = {
  text: `WITH own AS (SELECT * FROM espalier.line WHERE session = $1 AND id IS NOT NULL)
    SELECT line, raw FROM (
      (SELECT * FROM own WHERE type = 'message' AND espalier.field(line, 'message', 'role') = 'user' ORDER BY position LIMIT 1)
      UNION (SELECT * FROM own WHERE type = 'session_info' ORDER BY position DESC LIMIT 1)
      UNION (SELECT * FROM own WHERE type = 'compaction' ORDER BY position DESC LIMIT 1)
      UNION (SELECT * FROM own ORDER BY position DESC LIMIT 1)
    ) AS telling ORDER BY position`,
};

/**
 * Forks a plain session by copying its lines inside the database. Only new lines are sent over the network.
 * @throws EspalierError `exists`, and the errors of every call of the store
 */
async function forkInside(
  database: Database,
  namespace: string,
  source: SessionPlace,
  ref: string,
  header: SessionHeader,
  { leafId, additions }: ForkPlan,
): Promise<FoundSession> {
  const place: SessionPlace = { key: sessionKey(namespace, ref), ref, made: randomUUID() };
  const make = async (connection: Connection) => {
    await insertSession(connection, namespace, place, header.id, [rowOfHeader(formatLine(header))]);
    const values = [source.key, leafId, place.key];
    const [copied] = await connection.query<ExtentRow>(COPY, values);
    await tell(connection, place);
    const rows = additions.map((entry) => rowOfLine(formatLine(entry)));
    const added = rows.length > 0 ? await insertLines(connection, place, rows) : undefined;
    return { extent: added?.end ?? extentOf(copied!), isPlain: true };
  };
  return { place, header, ...(await madeOnce(database, place, make, true)) };
}

async function tell(connection: Connection, { key }: SessionPlace): Promise<void> {
  const telling = await connection.query<FetchedLine>(TELLING, [key]);
  const facts = factsOf(telling.map((line) => rowOfLine(bytesOfLine(line))));
  await connection.query(
    {
      text: `UPDATE espalier.session SET name = $2, first_message = $3, updated_at = $4, last_compaction = $5
        WHERE key = $1`,
    },
    [key, facts.name, facts.firstMessage, facts.updatedAt, facts.lastCompaction],
  );
}

/** Options for following a session. */
export interface FollowOptions {
  /** Position of the first line; 0 is the header. Default: the end, for new lines only. */
  from?: number;
  /** Ends following. */
  signal?: AbortSignal;
  /** Milliseconds between two checks when no notification arrives. Default 1,000. */
  pollMs?: number;
}

/** A line of a followed session. */
export interface FollowedLine {
  /** Position from 0, without gaps. */
  position: number;
  /** The line without its newline. */
  line: Uint8Array;
}

/** Maximum number of lines per check. */
const PAGE_LINES = 500;

const LOOK = {
  name: "espalier-look",
  text: `SELECT line, raw FROM espalier.line WHERE session = $1 AND position >= $2
    ORDER BY position LIMIT ${PAGE_LINES}`,
};

/**
 * Yields the lines of a session as they are appended, in order, each once. A notification of the writer ends the wait.
 * A check every `pollMs` finds lines whose notification was lost.
 *
 * @throws EspalierError `unreadable`
 */
async function* followSession(
  database: Database,
  key: string,
  start: number,
  { signal, pollMs = 1_000 }: FollowOptions,
): AsyncGenerator<FollowedLine> {
  let hint = new AbortController();
  const ring = () => hint.abort();
  signal?.addEventListener("abort", ring, { once: true });
  let connection: ReservedConnection | undefined;
  const listen = async (): Promise<void> => {
    let reserved: ReservedConnection | undefined;
    try {
      reserved = await database.reserve();
      connection = reserved;
      reserved.hear(ring);
      void reserved.over.then(() => {
        connection = undefined;
      });
      await reserved.query({ text: `LISTEN ${channelOf(key)}` });
      // Notifications stop here: checks for lines, and opens a new connection.
      void reserved.over.then(ring);
    } catch {
      // A notification only saves time. Real problems of the database are thrown by the next query.
      await reserved?.release();
    }
  };
  let position = start;
  try {
    while (!signal?.aborted) {
      if (!connection) await listen();
      const values = [key, position];
      const lines = await withSessionError("unreadable", () =>
        retryIdempotent(database, () => database.query<FetchedLine>(LOOK, values)),
      );
      for (const line of lines) {
        yield { position, line: bytesOfLine(line) };
        position++;
      }
      if (lines.length === PAGE_LINES) continue;
      await setTimeout(pollMs, undefined, { signal: hint.signal }).catch(() => undefined);
      hint = new AbortController();
    }
  } finally {
    signal?.removeEventListener("abort", ring);
    await connection?.release();
  }
}

/** Returns the channel for notifications about a session. Its name does not reveal the session. */
function channelOf(key: string): string {
  return `espalier_${createHash("sha256").update(key).digest("hex").slice(0, 32)}`;
}

/**
 * Notifications to followers of sessions. They are sent separately, after the commit, because commits that notify wait
 * for each other. If a notification is lost, the follower waits for its next check.
 */
class Hints {
  readonly #database: Database;
  readonly #waiting = new Set<string>();
  #sending: Promise<void> | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  give(channel: string): void {
    this.#waiting.add(channel);
    this.#sending ??= this.#send();
  }

  /** Resolves when all pending notifications are sent or lost. */
  async settle(): Promise<void> {
    await this.#sending;
  }

  async #send(): Promise<void> {
    // Several appends in a row give one notification.
    await undefined;
    for (const channel of this.#waiting) {
      this.#waiting.delete(channel);
      // Lost together with the connection: followers check regularly.
      await this.#database
        .query({ name: "espalier-hint", text: "SELECT pg_notify($1, '')" }, [channel])
        .catch(() => undefined);
    }
    this.#sending = undefined;
  }
}
