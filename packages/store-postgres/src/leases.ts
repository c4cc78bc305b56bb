import { randomInt, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { EspalierError } from "@espalier/jsonl-stream";
import { busyError, type LeaseOptions, type SessionLease } from "@espalier/session-tree";
import { type Database, type ReservedConnection, retryIdempotent } from "./database.ts";
import type { SessionPlace } from "./lines.ts";

/** Milliseconds between two signs of life of an owner. */
const BEAT_MS = 5_000;

/** Milliseconds without a sign of life, by the database's clock, after which an owner counts as dead. */
const LAPSE_MS = 20_000;

/** Milliseconds between two attempts of a waiting caller. */
const LOOK_MS = 25;

/**
 * Lets a statement return before its changes are on disk. If a crash of the server loses a lease, its owner has lost
 * its connection too. The owner's next append writes it to disk.
 */
const WITHOUT_DISK = "set_config('synchronous_commit', 'off', true)";

/**
 * Takes a free lease. A lease is free when there is none, when its owner's connection has ended (the lock held by the
 * connection is available), or when the owner gave no sign of life for {@link LAPSE_MS}. A lease that an earlier
 * attempt of this call took counts as taken by it.
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

/** Gives a sign of life. Returns whether the lock is free, although the owner's connection seems to be open. */
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

interface Holder {
  pid: number;
  host: string;
  since: Date;
}

interface Held {
  /** Key of the session. */
  key: string;
  owner: string;
}

/**
 * The leases of one process. All of them use one separate connection, which holds a lock that other processes try. When
 * the process ends, the server releases the lock, and the next caller gets the session at once.
 */
export class PostgresLeases {
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
        const [holder] = await this.#database.query<Holder>(HOLDER, [key]);
        // Released in the meantime: tries again.
        if (!holder) continue;
        if (performance.now() >= deadline)
          throw busyError(ref, { ...holder, since: new Date(holder.since).toISOString() });
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    } catch (error) {
      // The statement may have run although its result was lost, so the lease is released.
      await this.#release(held).catch(() => undefined);
      throw error;
    }
    return { release: () => this.#release(held) };
  }

  /** Ends the connection of the leases. Other processes can then take those that are still held. */
  async close(): Promise<void> {
    this.#held.clear();
    await this.#end();
  }

  async #tries({ key, owner }: Held, isBrief: boolean): Promise<boolean> {
    const { lock, backend } = await this.#alive();
    const { pid } = process;
    const values = [key, owner, lock, backend, pid, hostname(), isBrief, LAPSE_MS / 1_000];
    const rows = await retryIdempotent(this.#database, () => this.#database.query(TAKE, values));
    return rows.length > 0;
  }

  async #release(held: Held): Promise<void> {
    if (!this.#held.has(held)) return;
    const { key, owner } = held;
    try {
      await retryIdempotent(this.#database, () => this.#database.query(RELEASE, [key, owner]));
    } finally {
      this.#held.delete(held);
      if (this.#held.size === 0) await this.#end();
    }
  }

  #alive(): Promise<Life> {
    if (!this.#life) {
      const life = this.#beginLife();
      this.#life = life;
      // The next caller tries again.
      life.catch(() => {
        if (this.#life === life) this.#life = undefined;
      });
    }
    // A failed sign of life is repeated by the next one. Otherwise the lease lapses.
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
        // At once, because other processes count the owner as dead until the next beat. The next beat repairs a
        // failure.
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

  /** Gives a sign of life for every lease; over a new connection if the old one is lost. */
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
    // The server has ended the connection, and the network has lost the news.
    life.isOver = true;
    void life.connection.release().catch(() => undefined);
    await this.#beat(true);
  }
}

/** The connection of the leases. */
interface Life {
  connection: ReservedConnection;
  /** Number of the lock that the connection holds. */
  lock: string;
  /** The server's process number of the connection. */
  backend: number;
  isOver: boolean;
}

/** Returns whether a lease failed because the session does not exist. */
export function namesNoSession(error: unknown): boolean {
  return error instanceof EspalierError && error.constraint === "lease_session";
}
