import { randomInt, randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { EspalierError } from "@espalier/jsonl-stream";
import { busyError, type LeaseOptions, type SessionLease } from "@espalier/session-tree";
import { type Database, type ReservedConnection, retryIdempotent } from "./database.ts";
import type { SessionPlace } from "./lines.ts";

/** Milliseconds between two signs of life of an owner. */
const BEAT_MS = 5_000;

/** Milliseconds without a sign of life, by the database's clock, after which an owner counts as gone. */
const LAPSE_MS = 20_000;

/** Milliseconds between two attempts of a waiting caller. */
const LOOK_MS = 25;

/**
 * A row that lets its statement return before the disk has it. A lease that a crash of the server takes away had no
 * owner any more, since its connection ended; with the owner's next append it is on disk.
 */
const WITHOUT_DISK = "set_config('synchronous_commit', 'off', true)";

/**
 * Takes a free lease: none is there, its owner's connection is gone (the lock that lives with the connection
 * can be had), or the owner gave no sign of life for {@link LAPSE_MS}. One that this very attempt took, whose answer was
 * lost, is taken.
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

const BEAT = {
  name: "espalier-beat",
  text: `UPDATE espalier.lease SET beat = clock_timestamp(), connection = $3, backend = $4
    FROM ${WITHOUT_DISK} WHERE session = ANY ($1) AND owner = ANY ($2::uuid[])`,
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
  /** The session's. */
  key: string;
  owner: string;
}

/**
 * The leases of one process. All of them live with one connection of its own, which holds a lock that others can try:
 * when the process ends, the server notices, and the next caller gets the session at once.
 */
export class PostgresLeases {
  readonly #database: Database;
  readonly #held = new Set<Held>();
  #life: Promise<Life> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  /** @throws EspalierError `busy` with the `holder`, and as every call of the store */
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
        // Given back in between: then it may be had now.
        if (!holder) continue;
        if (performance.now() >= deadline)
          throw busyError(ref, { ...holder, since: new Date(holder.since).toISOString() });
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    } catch (error) {
      // It may be ours for all we know: a statement whose answer was lost may have been carried out.
      await this.#release(held).catch(() => undefined);
      throw error;
    }
    return { release: () => this.#release(held) };
  }

  /** Ends the connection that leases live with; those that are still held can be had by others. */
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
      // The next who needs it tries anew.
      life.catch(() => {
        if (this.#life === life) this.#life = undefined;
      });
    }
    // A sign of life that could not be given is made up for by the next; the lease is a courtesy, and lapses otherwise.
    this.#timer ??= setInterval(() => void this.#beat().catch(() => undefined), BEAT_MS).unref();
    return this.#life;
  }

  /** Takes a lock that lives as long as a connection of its own. */
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
        life.isOver = true;
        // At once: another process that looks meanwhile counts the owner as gone. Where it fails, the next beat repairs it.
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
    // One that never came about has nothing to end.
    await (await life?.catch(() => undefined))?.connection.release();
  }

  /** A sign of life for every lease; through a new connection, if the one they lived with is gone. */
  async #beat(): Promise<void> {
    const life = await this.#life;
    if (life?.isOver) this.#life = undefined;
    if (this.#held.size === 0) return;
    const { lock, backend } = await this.#alive();
    const held = [...this.#held];
    const [keys, owners] = [held.map(({ key }) => key), held.map(({ owner }) => owner)];
    await this.#database.query(BEAT, [keys, owners, lock, backend]);
  }
}

/** The connection that leases live with. */
interface Life {
  connection: ReservedConnection;
  /** The number of the lock that it holds. */
  lock: string;
  /** The server's number for it. */
  backend: number;
  isOver: boolean;
}

/** Returns whether a lease was refused because there is no such session. */
export function namesNoSession(error: unknown): boolean {
  return error instanceof EspalierError && error.constraint === "lease_session";
}
