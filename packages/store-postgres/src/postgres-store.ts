import { createHash, randomInt, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  busyError,
  ForkLines,
  type LeaseOptions,
  parsedHeader,
  type SessionLease,
  type SessionRef,
  type SessionStore,
  sessionRef,
} from "@espalier/session-tree";
import {
  type ConnectionOptions,
  checkNamespace,
  type Database,
  parseStoreAddress,
  poolDatabase,
  type ReservedConnection,
  retriedQuery,
} from "./database.ts";
import {
  bytesOfLine,
  type FetchedLine,
  type FoundSession,
  gone,
  type SessionPlace,
  sessionKey,
  withSessionError,
} from "./lines.ts";
import { checkVersion, type MigrationReport, migrate } from "./migrate.ts";
import { PostgresLog } from "./postgres-log.ts";
import {
  createSession,
  findSession,
  forkInside,
  forkSource,
  isRef,
  listSessions,
  notFound,
} from "./sessions.ts";

/** A store of sessions in a database, with additional methods for databases. */
export interface PostgresStore extends SessionStore {
  /** Namespace of the sessions. No call reaches sessions of another one. */
  readonly namespace: string;
  /**
   * Yields the lines of a session as they are appended, until `signal` is aborted; the removal of the session does not
   * end it, and a later session with the same name is another one. Throws EspalierError `not-found`, `unreadable`.
   */
  follow(ref: SessionRef, options?: FollowOptions): AsyncGenerator<FollowedLine>;
  /** Waits for running operations and ends the connections. */
  close(): Promise<void>;
}

/** Selects the originals of a session's upgrades. They are removed with it. */
const ORIGINALS = { text: "SELECT ref FROM espalier.session WHERE namespace = $1 AND original_of = $2" };
const DELETE = { text: "DELETE FROM espalier.session WHERE key = $1 AND made = $2" };

/** Returns a store for one namespace of a database with tables (see `migrate`). @throws EspalierError `address` */
export function postgresStore(database: Database, namespace: string): PostgresStore {
  checkNamespace(namespace);
  const leases = new PostgresLeases(database);
  const hints = hintSender(database);
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
        const parsed = parsedHeader(header);
        const name = ref ?? parsed.id;
        const source = lines instanceof ForkLines && (await forkSource(database, namespace, parsed));
        const made = source
          ? await forkInside(database, namespace, source, name, parsed, lines.plan)
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
          if (!(error instanceof EspalierError && error.constraint === "lease_session")) throw error;
          throw isName ? notFound(database, name) : gone(name);
        }),
      );
    },
    async delete(ref) {
      const { place } = await find(ref);
      const lease = await store.lease({ file: place.ref });
      try {
        return await writing(async () => {
          const originals = await retriedQuery<{ ref: string }>(database, ORIGINALS, [namespace, place.key]);
          await retriedQuery(database, DELETE, [place.key, place.made]);
          return [place.ref, ...originals.map(({ ref }) => ref)];
        });
      } finally {
        // The lease ends with the session; if the session could not be removed, it lapses.
        await lease.release().catch(() => undefined);
      }
    },
    async *follow(ref, options = {}) {
      const { place, extent } = await find(ref);
      yield* followSession(database, place, options.from ?? extent.lines, options);
    },
    async close() {
      await leases.close();
      await hints.settle();
      await database.close();
    },
  };
  return store;
}

/**
 * Opens a store for one namespace of the database at an address:
 * `postgres://user:password@host:5432/database?namespace=team&sslmode=verify-full`. Connections are opened when a call
 * needs one; `close` ends them.
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
 * @throws EspalierError `address`, and the errors of `migrate`
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

/**
 * Selects the lines of a session, or of its upgraded form, which has the lines at the same positions and the original
 * beside it. No lines when another session has the name now.
 */
const LOOK = {
  name: "espalier-look",
  text: `SELECT line, raw FROM espalier.line WHERE session = $1 AND position >= $2 AND EXISTS (
      SELECT FROM espalier.session WHERE (key = $1 OR original_of = $1) AND made = $3)
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
  { key, made }: SessionPlace,
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
      reserved.onNotification(ring);
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
      const values = [key, position, made];
      const lines = await withSessionError("unreadable", () =>
        retriedQuery<FetchedLine>(database, LOOK, values),
      );
      for (const line of lines) {
        yield { position, line: bytesOfLine(line) };
        position++;
      }
      if (lines.length === PAGE_LINES) continue;
      await pause(pollMs, undefined, { signal: hint.signal }).catch(() => undefined);
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
 * Returns a function that notifies the followers of sessions. Notifications are sent separately, after the commit,
 * because commits that notify wait for each other. If a notification is lost, the follower waits for its next check.
 */
function hintSender(database: Database) {
  const waiting = new Set<string>();
  let sending: Promise<void> | undefined;
  const send = async () => {
    // Several appends in a row give one notification.
    await undefined;
    for (const channel of waiting) {
      waiting.delete(channel);
      // A notification is lost when the connection is lost. Followers also check at intervals.
      await database
        .query({ name: "espalier-hint", text: "SELECT pg_notify($1, '')" }, [channel])
        .catch(() => undefined);
    }
    sending = undefined;
  };
  return {
    give(channel: string): void {
      waiting.add(channel);
      sending ??= send();
    },
    /** Resolves when all pending notifications are sent or lost. */
    settle: async (): Promise<void> => sending,
  };
}

/** Milliseconds between two signs of life of an owner. */
const BEAT_MS = 5_000;

/** Milliseconds without a sign of life, by the database's clock, after which an owner counts as dead. */
const LAPSE_MS = 20_000;

/** Milliseconds between two attempts of a waiting caller. */
const LOOK_MS = 25;

/**
 * Lets a statement return before its changes are on disk; the owner's next append writes them there. If a crash of the
 * server loses a lease, the owner of this lease has lost its connection too.
 */
const WITHOUT_DISK = "set_config('synchronous_commit', 'off', true)";

/**
 * Takes a free lease. A session's lease is free when it has no owner, when the owner's connection has ended (the lock
 * held by the connection is available), or when the owner gave no sign of life for {@link LAPSE_MS}. A lease that an
 * earlier attempt of this call took counts as taken by it.
 */
const TAKE = {
  name: "espalier-take",
  text: `INSERT INTO espalier.lease AS held
      (session, owner, connection, backend, pid, host, brief, since, beat)
    SELECT $1, $2::uuid, $3::bigint, $4::integer, $5::integer, $6, $7::boolean, clock_timestamp(), clock_timestamp()
    FROM ${WITHOUT_DISK}
    ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, connection = excluded.connection,
      backend = excluded.backend, pid = excluded.pid, host = excluded.host, brief = excluded.brief,
      since = excluded.since, beat = excluded.beat
    WHERE held.owner = excluded.owner OR held.beat < clock_timestamp() - make_interval(secs => $8)
      OR (held.backend <> pg_backend_pid() AND pg_try_advisory_xact_lock_shared(held.connection))
    RETURNING owner`,
};

const RELEASE = {
  name: "espalier-release",
  text: `DELETE FROM espalier.lease USING ${WITHOUT_DISK} WHERE session = $1 AND owner = $2`,
};

/** Renews the leases of an owner. Returns whether the lock is free although the owner's connection seems open. */
const BEAT = {
  name: "espalier-beat",
  text: `UPDATE espalier.lease SET beat = clock_timestamp(), connection = $3, backend = $4
    FROM ${WITHOUT_DISK} WHERE session = ANY ($1) AND owner = ANY ($2::uuid[])
    RETURNING $4 <> pg_backend_pid() AND pg_try_advisory_xact_lock_shared($3) AS free`,
};

const HOLDER = {
  name: "espalier-holder",
  text: "SELECT pid, host, since FROM espalier.lease WHERE session = $1",
};

interface Held {
  /** Key of the session. */
  key: string;
  owner: string;
}

/**
 * The leases of one process. All of them use one separate connection, which holds a lock that other processes try. When
 * the process ends, the server releases the lock, and the next caller gets the session at once.
 */
class PostgresLeases {
  readonly #database: Database;
  readonly #held = new Set<Held>();
  #life: Promise<Life> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Takes a lease. @throws EspalierError `busy` with the `holder`, and the errors of every call of the store */
  async take(
    { key, ref }: Pick<SessionPlace, "key" | "ref">,
    { waitMs = 0 }: LeaseOptions = {},
  ): Promise<SessionLease> {
    const held: Held = { key, owner: randomUUID() };
    this.#held.add(held);
    try {
      const deadline = performance.now() + waitMs;
      while (!(await this.#tries(held, waitMs > 0))) {
        type Holder = { pid: number; host: string; since: Date };
        const [holder] = await this.#database.query<Holder>(HOLDER, [key]);
        // The lease was released in the meantime: the loop tries again.
        if (!holder) continue;
        if (performance.now() >= deadline)
          throw busyError(ref, { ...holder, since: new Date(holder.since).toISOString() });
        await pause(LOOK_MS);
      }
    } catch (error) {
      // The statement may have run although its result was lost, so the lease is released.
      await this.#release(held).catch(() => undefined);
      throw error;
    }
    return { release: () => this.#release(held) };
  }

  /** Ends the connection of the leases. Other processes can then take the leases that are still held. */
  async close(): Promise<void> {
    this.#held.clear();
    await this.#end();
  }

  async #tries({ key, owner }: Held, isBrief: boolean): Promise<boolean> {
    const { lock, backend } = await this.#alive();
    const values = [key, owner, lock, backend, process.pid, hostname(), isBrief, LAPSE_MS / 1_000];
    const rows = await retriedQuery(this.#database, TAKE, values);
    return rows.length > 0;
  }

  async #release(held: Held): Promise<void> {
    if (!this.#held.has(held)) return;
    const { key, owner } = held;
    try {
      await retriedQuery(this.#database, RELEASE, [key, owner]);
    } finally {
      this.#held.delete(held);
      if (this.#held.size === 0) await this.#end();
    }
  }

  #alive(): Promise<Life> {
    if (!this.#life) {
      const life = this.#beginLife();
      this.#life = life;
      // After a failure, the next caller opens a connection again.
      life.catch(() => {
        if (this.#life === life) this.#life = undefined;
      });
    }
    // After a failed renewal, the next one tries again. Without a renewal, the lease lapses.
    this.#timer ??= setInterval(() => void this.#beat().catch(() => undefined), BEAT_MS).unref();
    return this.#life;
  }

  /** Opens a connection and takes a lock that ends with it. */
  async #beginLife(): Promise<Life> {
    const connection = await this.#database.reserve();
    const lock = `${randomInt(2 ** 47)}`;
    try {
      const [row] = await connection.query<{ backend: number }>(
        { text: "SELECT pg_advisory_lock($1::bigint), pg_backend_pid() AS backend" },
        [lock],
      );
      const life: Life = { connection, lock, backend: Number(row!.backend), isOver: false };
      void connection.over.then(() => {
        if (life.isOver) return;
        life.isOver = true;
        // Renews at once, because other processes count the owner as dead until then. If this fails, the next beat
        // retries.
        void this.#beat().catch(() => undefined);
      });
      return life;
    } catch (error) {
      await connection.release();
      throw error;
    }
  }

  async #end(): Promise<void> {
    const life = this.#life;
    this.#life = undefined;
    clearInterval(this.#timer);
    this.#timer = undefined;
    // A connection that could not be opened needs no release.
    await (await life?.catch(() => undefined))?.connection.release();
  }

  /** Renews every lease, over a new connection if the old one is lost. */
  async #beat(isRepeated = false): Promise<void> {
    const current = this.#life;
    if ((await current)?.isOver && this.#life === current) this.#life = undefined;
    if (this.#held.size === 0) return;
    const life = await this.#alive();
    const held = [...this.#held];
    const [keys, owners] = [held.map(({ key }) => key), held.map(({ owner }) => owner)];
    const beaten = await this.#database.query<{ free: boolean }>(BEAT, [
      keys,
      owners,
      life.lock,
      life.backend,
    ]);
    if (isRepeated || !beaten.some(({ free }) => free)) return;
    // The server ended the connection, but the message was lost in the network.
    life.isOver = true;
    void life.connection.release().catch(() => undefined);
    await this.#beat(true);
  }
}

interface Life {
  connection: ReservedConnection;
  /** Number of the lock that the connection holds. */
  lock: string;
  /** The server's process number of the connection. */
  backend: number;
  isOver: boolean;
}
