import { randomUUID } from "node:crypto";
import { EspalierError } from "@espalier/jsonl-stream";
import type { Client, ClientBase, ClientConfig, Pool, PoolClient } from "pg";
import {
  asStoreError,
  type Connection,
  type Database,
  type ReservedConnection,
  type Statement,
} from "./database.ts";

// An optional peer: users without a database do not install it.
const pg = await import("pg").catch((cause: unknown) => {
  throw new EspalierError("not-installed", "PostgreSQL needs the package pg: npm install pg", { cause });
});

/** Limits of the connections to a database. What the address says of these goes before. */
export interface ConnectionOptions {
  /** Connections at the same time. Default 10. */
  connections?: number;
  /** Milliseconds until a connection must be made. Default 10,000. */
  connectMs?: number;
  /** Milliseconds a statement may take; it is taken back then. Default 60,000. 0: all the time it takes. */
  statementMs?: number;
  /** Milliseconds a statement may wait for a lock that something else holds. Default 10,000. 0: as long as a statement. */
  lockMs?: number;
  /**
   * Milliseconds for which a lost connection is made again before an append or a reading fails. Default 10,000: a server
   * that restarts needs about one second.
   */
  reconnectMs?: number;
}

/** Milliseconds beyond the server's own limit after which a connection that says nothing counts as lost. */
const SILENCE_MS = 5_000;

/** Seconds after which the server asks a silent machine whether it is still there, and counts it as gone. */
const KEEPALIVES =
  "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

/**
 * Settings of every connection, whatever those of the server, the database or the role: text is UTF-8, and a commit
 * that was acknowledged is on disk. A setting that is stricter than `on` stays. Every statement finds its rows by a
 * key: a plan made while the tables were small must not read them whole when they have grown.
 */
const PINNED = `SET client_encoding = 'UTF8'; SET default_transaction_isolation = 'read committed';
  SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')`;

/** Connections to the database of an address, made when they are needed and kept for the next. */
export function poolDatabase(
  connectionString: string,
  place: string,
  {
    connections = 10,
    connectMs = 10_000,
    statementMs = 60_000,
    lockMs = 10_000,
    reconnectMs = 10_000,
  }: ConnectionOptions = {},
): Database {
  const { address, limits } = withoutLimits(connectionString);
  const longest = limits.statement_timeout ?? statementMs;
  const seconds = limits.connect_timeout;
  // Set by a statement: a pooler such as PgBouncer takes no connection that begins with them.
  const pinned = `SET statement_timeout = ${longest}; SET lock_timeout = ${limits.lock_timeout ?? lockMs}; ${PINNED}`;
  const config: ClientConfig = {
    connectionString: address,
    connectionTimeoutMillis: seconds === undefined ? connectMs : seconds * 1_000,
    // 0 is no limit to both.
    query_timeout: longest > 0 ? longest + SILENCE_MS : 0,
    keepAlive: true,
    application_name: "espalier",
  };
  /** Once for each pool; a failure is not kept. */
  let checked: Promise<void> | undefined;
  const pool = withStoreErrors(
    () =>
      new pg.Pool({
        ...config,
        max: connections,
        allowExitOnIdle: true,
        onConnect: async (client) => {
          checked ??= refuseSharedSessions(client, () => new pg.Client(config), place);
          await checked.catch((error: unknown) => {
            checked = undefined;
            throw error;
          });
          await client.query(pinned);
        },
      }),
    place,
  );
  // A connection that breaks while unused is taken out of the pool; the next one is made when it is needed.
  pool.on("error", () => undefined);
  return new PoolDatabase(pool, () => new pg.Client(config), pinned, place, reconnectMs);
}

class PoolDatabase implements Database {
  readonly place: string;
  readonly reconnectMs: number;
  readonly #pool: Pool;
  readonly #createClient: () => Client;
  readonly #pinned: string;
  #closing: Promise<void> | undefined;

  constructor(pool: Pool, createClient: () => Client, pinned: string, place: string, reconnectMs: number) {
    this.#pinned = pinned;
    this.reconnectMs = reconnectMs;
    this.#pool = pool;
    this.#createClient = createClient;
    this.place = place;
  }

  query<Row extends object>(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.#using((connection) => connection.query<Row>(statement, values));
  }

  transaction<Result>(act: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#using(async (connection, client) => {
      await connection.query({ text: "BEGIN" });
      try {
        const result = await act(connection);
        await connection.query({ text: "COMMIT" });
        return result;
      } catch (error) {
        // Where this fails too the connection is broken, and with it the transaction is over; the first error says why.
        await client.query("ROLLBACK").catch(() => undefined);
        throw error;
      }
    });
  }

  async reserve(): Promise<ReservedConnection> {
    this.#assertOpen();
    const client = this.#createClient();
    const over = new Promise<void>((resolve) => {
      client.on("error", () => resolve());
      client.on("end", () => resolve());
    });
    try {
      await client.connect();
      await client.query(this.#pinned);
      await client.query(KEEPALIVES);
    } catch (error) {
      // Half a connection is none, and would keep the program from ending.
      void client.end().catch(() => undefined);
      throw asStoreError(error, this.place);
    }
    const { query } = new ClientConnection(client, this.place);
    return {
      query,
      over,
      hear: (listener) => void client.on("notification", listener),
      release: () => client.end(),
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#pool.end();
    return this.#closing;
  }

  #assertOpen(): void {
    if (!this.#closing) return;
    throw new EspalierError("closed", `${this.place} was closed by this program; open it again.`);
  }

  async #connect(): Promise<PoolClient> {
    this.#assertOpen();
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw asStoreError(error, this.place);
    }
  }

  async #using<Result>(
    use: (connection: Connection, client: PoolClient) => Promise<Result>,
  ): Promise<Result> {
    const client = await this.#connect();
    // The caller of the statement gets it; without a listener it would end the process.
    const ignore = () => undefined;
    client.on("error", ignore);
    let isBroken = false;
    try {
      return await use(new ClientConnection(client, this.place), client);
    } catch (error) {
      isBroken = error instanceof EspalierError && error.code === "unreachable";
      throw error;
    } finally {
      client.off("error", ignore);
      client.release(isBroken);
    }
  }
}

class ClientConnection implements Connection {
  readonly #client: ClientBase;
  readonly #place: string;

  constructor(client: ClientBase, place: string) {
    this.#client = client;
    this.#place = place;
  }

  readonly query = async <Row extends object>(
    { name, text }: Statement,
    values: readonly unknown[] = [],
  ): Promise<Row[]> => {
    try {
      const named = name === undefined ? {} : { name };
      const { rows } = await this.#client.query<Row>({ ...named, text, values: [...values] });
      return rows;
    } catch (error) {
      throw asStoreError(error, this.#place);
    }
  };
}

/** A broken certificate file, for one, is found while the address is read. */
function withStoreErrors<Result>(make: () => Result, place: string): Result {
  try {
    return make();
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const message = `The parameters of the address of ${place} cannot be used (${code ?? "they are not understood"}); see that the files they name can be read.`;
    throw new EspalierError("address", message);
  }
}

/** So often it is looked whether another connection finds what one has set: a pooler may answer by another one first. */
const LOOKS = 3;

/**
 * Refuses a pooler that gives a connection to another program between two transactions: leases, hints and settings live
 * with a connection. What one connection has set, another one must not find. Servers that are asked directly say so by
 * the number of their process, and are not asked again.
 *
 * @throws EspalierError `unsuitable`
 */
async function refuseSharedSessions(
  client: ClientBase,
  createClient: () => Client,
  place: string,
): Promise<void> {
  const mark = randomUUID();
  const { rows } = await client.query<{ backend: number }>(
    `SELECT pg_backend_pid() AS backend, set_config('espalier.connection', '${mark}', false)`,
  );
  if ((client as ClientBase & { processID?: number }).processID === Number(rows[0]!.backend)) return;
  const other = createClient();
  other.on("error", () => undefined);
  try {
    await other.connect();
    for (let look = 0; look < LOOKS; look++) {
      const found = await other.query<{ mark: string }>(
        "SELECT current_setting('espalier.connection', true) AS mark",
      );
      if (found.rows[0]?.mark === mark)
        throw new EspalierError(
          "unsuitable",
          `${place} is a pooler in transaction mode, and sessions need connections of their own; give it pool_mode = session (PgBouncer), or name the server itself.`,
        );
    }
  } finally {
    await other.end().catch(() => undefined);
  }
}

/** An address such as `postgres://user:password@host:5432/database?namespace=team&sslmode=verify-full`, taken apart. */
interface StoreAddress {
  /** For the client: without what is ours. Holds the password. */
  connectionString: string;
  /** Namespace of the sessions. Default `default`. */
  namespace: string;
  /** For people: without user, password and parameters. */
  place: string;
}

/** The namespace of an address that names none. */
export const DEFAULT_NAMESPACE = "default";

/** Longest name of a namespace, in characters. */
const LONGEST_NAMESPACE = 128;

/** Returns whether a text is the address of a database. */
export function isPostgresAddress(text: string): boolean {
  return /^postgres(ql)?:\/\//i.test(text);
}

/** @throws EspalierError `address`; the message holds nothing of the address, which may hold a password */
export function parseStoreAddress(text: string): StoreAddress {
  const url = isPostgresAddress(text) && URL.canParse(text) ? new URL(text) : undefined;
  const database = url && decoded(url.pathname);
  if (!url || database === undefined) {
    throw new EspalierError(
      "address",
      "The address of the database cannot be read; write postgres://user@host:5432/database, and characters such as @ or / in a password as %40 or %2F.",
    );
  }
  checkParameters(url);
  const namespace = url.searchParams.get("namespace") ?? DEFAULT_NAMESPACE;
  checkNamespace(namespace);
  url.searchParams.delete("namespace");
  // What the client makes of these anyway, but with a warning on stderr: names for less than it does.
  if (
    STRICT_ALL_THE_SAME.has(url.searchParams.get("sslmode") ?? "") &&
    !url.searchParams.has("uselibpqcompat")
  )
    url.searchParams.set("sslmode", "verify-full");
  url.hash = "";
  const host = url.host || url.searchParams.get("host") || "localhost";
  return {
    connectionString: url.href,
    namespace,
    place: `postgres://${host}${database}`,
  };
}

/** Known parameters of an address: ours, the client's, and limits of a connection. */
const PARAMETERS = [
  "namespace",
  ...["statement_timeout", "lock_timeout", "connect_timeout", "application_name", "options"],
  ...["sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "ssl", "uselibpqcompat"],
  ...["host", "port", "user", "password", "client_encoding"],
];

/** @throws EspalierError `address` for a parameter that would have no effect, or for two of one name */
function checkParameters({ searchParams, search }: URL): void {
  const names = [...searchParams.keys()];
  const wrong = names.find((name, at) => !PARAMETERS.includes(name) || names.indexOf(name) !== at);
  if (wrong === undefined) return;
  // A ? in a password that was not escaped makes a parameter of its rest.
  const named = /[@/]/.test(search) || !/^\w{1,40}$/.test(wrong) ? "A parameter" : `The parameter ${wrong}`;
  throw new EspalierError(
    "address",
    `${named} of the database's address is unknown, or is there twice; known are ${PARAMETERS.join(", ")}. A ? in a password is written %3F.`,
  );
}

/** Decodes `%` escapes; undefined where that is impossible. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    // The cause holds what may be a password; that nothing can be read is all there is to say.
    return undefined;
  }
}

/** Modes by which PostgreSQL's own programs would take any certificate, or any name in it. */
const STRICT_ALL_THE_SAME: ReadonlySet<string> = new Set(["prefer", "require", "verify-ca"]);

/** @throws EspalierError `address` */
export function checkNamespace(namespace: string): void {
  const isSound = namespace !== "" && namespace.length <= LONGEST_NAMESPACE && !/[\p{C}/]/u.test(namespace);
  if (!isSound)
    throw new EspalierError(
      "address",
      `A namespace has 1 to ${LONGEST_NAMESPACE} visible characters and no slash; name another one.`,
    );
}

/** Limits that an address may set; the client would send them to the server when it connects. */
const LIMITS = ["statement_timeout", "lock_timeout", "connect_timeout"] as const;

/** An address without its limits, and these: milliseconds, for `connect_timeout` seconds. */
function withoutLimits(connectionString: string) {
  const url = new URL(connectionString);
  const limits: Partial<Record<(typeof LIMITS)[number], number>> = {};
  for (const name of LIMITS) {
    const said = url.searchParams.get(name);
    url.searchParams.delete(name);
    if (said === null) continue;
    if (!/^\d+$/.test(said))
      throw new EspalierError(
        "address",
        `${name} in the address of the database is a number (${name === "connect_timeout" ? "seconds" : "milliseconds"}), for example ${name}=30.`,
      );
    limits[name] = Number(said);
  }
  return { address: url.href, limits };
}
