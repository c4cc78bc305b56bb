import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { type DatabaseErrorCode, EspalierError } from "@espalier/jsonl-stream";
import type { Client, ClientBase, ClientConfig, Pool, PoolConfig } from "pg";

// An optional peer dependency: users without a database do not install it.
const pg = await import("pg").catch((cause: unknown) => {
  throw new EspalierError("not-installed", "PostgreSQL needs the package pg: npm install pg", { cause });
});

/** An SQL statement. With a name, it is planned once per connection. */
export interface Statement {
  /** Name under which the server caches the plan. Without it, the statement is planned each time. */
  name?: string;
  /** SQL with `$1`, `$2`, … for its values. */
  text: string;
}

/** Runs statements. */
export interface Connection {
  /**
   * Runs a statement; returns its rows as objects. @throws EspalierError `refused`, `unreachable`, `timeout`,
   * `not-migrated`, `closed`, `unsuitable` (a pooler in transaction mode)
   */
  query<Row extends object>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

/** A connection with a single user until it is released. For locks and notifications, which belong to a connection. */
export interface ReservedConnection extends Connection {
  /** Calls the listener for each notification on the channels of this connection. */
  onNotification(listener: () => void): void;
  /** Resolves when the connection is lost or released. */
  readonly over: Promise<void>;
  /** Ends the connection, with its locks and channels. */
  release(): Promise<void>;
}

/** A PostgreSQL database, with the functions that the store needs. */
export interface Database extends Connection {
  /** Address for people, without user and password. */
  readonly place: string;
  /** Milliseconds for which idempotent operations are retried while the connection is lost. */
  readonly reconnectMs: number;
  /** Runs all statements of `act` in one transaction. An error of `act` rolls all of them back, and is thrown. */
  transaction<Result>(act: (connection: Connection) => Promise<Result>): Promise<Result>;
  /** Opens a separate connection outside the pool. Throws the errors of `query`. */
  reserve(): Promise<ReservedConnection>;
  /** Ends all connections. */
  close(): Promise<void>;
}

/** Milliseconds until the next attempt. Doubled each time, up to {@link LONGEST_PAUSE}. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 1_000;

/**
 * Retries an idempotent operation while the connection is lost, until `reconnectMs` after the first failure: on a silent
 * network the first attempt alone may take longer.
 * @throws the error of the last attempt
 */
export async function retryIdempotent<Result>(
  { reconnectMs }: Pick<Database, "reconnectMs">,
  act: (attempt: number) => Promise<Result>,
): Promise<Result> {
  let deadline: number | undefined;
  let pause = FIRST_PAUSE;
  for (let attempt = 1; ; attempt++) {
    try {
      return await act(attempt);
    } catch (error) {
      const isPassing = error instanceof EspalierError && error.code === "unreachable" && !isFinal(error);
      deadline ??= performance.now() + reconnectMs;
      if (!isPassing || performance.now() + pause > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }
}

/** Runs an idempotent statement, and repeats it when the connection is lost. */
export const retriedQuery = <Row extends object>(
  database: Database,
  statement: Statement,
  values?: readonly unknown[],
): Promise<Row[]> => retryIdempotent(database, () => database.query<Row>(statement, values));

/** Returns whether a retry cannot help: an unknown host, or a problem with TLS. */
function isFinal({ cause }: EspalierError): boolean {
  return (
    cause instanceof Error && ((cause as NodeJS.ErrnoException).code === "ENOTFOUND" || isTlsTrouble(cause))
  );
}

/** Error of the client. Errors from the server have a severity; others are problems of the connection. */
interface ClientError extends Error {
  severity?: string;
  code?: string;
  constraint?: string;
}

/** Error codes of a server that is stopping, starting or full. The statement was not run, or its outcome is unknown. */
const COMING_AND_GOING = /^(08...|57P0[123]|53300)$/;

/** Error codes for a missing schema or table, and for a column that an older table lacks. */
const MISSING: ReadonlySet<string> = new Set(["3F000", "42P01", "42703"]);

/** Message of the client when the server requires a password and none is given. */
const NO_PASSWORD = /client password must be a/;

/** Messages for exceeded time limits, by error code: `statement_timeout` and `lock_timeout`. */
const TIMEOUTS = new Map([
  [
    "57014",
    "took too long for a statement, which was rolled back; try again, or set a larger statement_timeout in the address.",
  ],
  [
    "55P03",
    "did not give a statement a lock that another program holds, such as a migration or a backup; try again later, or set a larger lock_timeout in the address.",
  ],
]);

/** Message of a pooler that does not support a setting at the start of a connection. */
const STARTUP_PARAMETER = /unsupported startup parameter/;

/** Converts an error of a PostgreSQL client into the error that a `Database` throws. */
export function asStoreError(cause: unknown, place: string): unknown {
  if (cause instanceof EspalierError || !(cause instanceof Error)) return cause;
  const { severity, code, constraint, message } = cause as ClientError;
  const isOfServer = severity !== undefined;
  const failed = (kind: DatabaseErrorCode, problem: string) =>
    new EspalierError(kind, `${place} ${problem}`, {
      cause,
      sqlState: isOfServer ? code : undefined,
      constraint: kind === "refused" ? constraint : undefined,
    });
  if (isOfServer && STARTUP_PARAMETER.test(message))
    return failed(
      "refused",
      `accepts no connection with this setting (${message}); remove it from the address, or add it to ignore_startup_parameters of the pooler.`,
    );
  if (!isOfServer || COMING_AND_GOING.test(code ?? "")) {
    // A pooler uses one code for all of its errors, so its message is shown too.
    const why = isOfServer ? `${message}, ${code}` : (code ?? message);
    if (NO_PASSWORD.test(message))
      return failed(
        "refused",
        "requires a password, and none is given; add it to the address, or set PGPASSWORD.",
      );
    return failed(
      "unreachable",
      isTlsTrouble(cause)
        ? `and this program cannot agree on TLS (${why}); set sslrootcert in the address to the server's certificate authority, use the host name in its certificate, or see sslmode.`
        : `cannot be reached, or the connection was lost (${why}); check that the server runs and can be reached from this machine.`,
    );
  }
  const timeout = TIMEOUTS.get(code ?? "");
  if (timeout !== undefined) return failed("timeout", timeout);
  if (MISSING.has(code ?? "")) return notMigrated(place, cause);
  return failed("refused", `answers: ${message.replace(/[.\s]*$/, "")} (${code ?? "no code"}).`);
}

/**
 * Returns whether an error is a problem with TLS: an untrusted certificate, one for another host, or a server without
 * TLS.
 */
function isTlsTrouble({ code, message }: NodeJS.ErrnoException): boolean {
  return /CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|UNABLE_TO/.test(code ?? "") || /\bSSL\b/.test(message);
}

export function notMigrated(place: string, cause?: unknown): EspalierError {
  return new EspalierError(
    "not-migrated",
    `${place} is not set up for sessions, or was set up by an older version; run \`espalier store migrate\` with --store.`,
    { cause },
  );
}

/** Limits of the connections to a database. Limits in the address take precedence. */
export interface ConnectionOptions {
  /** Maximum number of connections. Default 10. */
  connections?: number;
  /** Milliseconds until a connection must be open. Default 10,000. */
  connectMs?: number;
  /** Milliseconds that a statement may take before it is cancelled. Default 60,000. 0: no limit. */
  statementMs?: number;
  /** Milliseconds that a statement may wait for a lock. Default 10,000. 0: no limit of its own. */
  lockMs?: number;
  /** Milliseconds for which a lost connection is retried (a server restarts in about 1,000). Default 10,000. */
  reconnectMs?: number;
}

/** Milliseconds after the server's own limit, or after a request to end, when a silent connection counts as lost. */
const SILENCE_MS = 5_000;

/** Keepalive settings in seconds, by which the server detects a dead machine. */
const KEEPALIVES =
  "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

/**
 * Settings of every connection, whatever the defaults of the server, the database or the role. Text is UTF-8, and an
 * acknowledged commit is on disk; a setting stricter than `on` is kept. Every statement finds its rows by a key: a plan
 * made for small tables must not read whole tables when they have grown, and a plan for large tables must not start
 * parallel processes, which takes longer than the statement.
 */
const PINNED = `SET client_encoding = 'UTF8'; SET default_transaction_isolation = 'read committed';
  SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
  SET max_parallel_workers_per_gather = 0;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')`;

/** Returns a pool of connections to a database, which are opened when needed. @throws EspalierError `address` */
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
  // Set by a statement, because poolers such as PgBouncer refuse them at the start of a connection.
  const pinned = `SET statement_timeout = ${longest}; SET lock_timeout = ${limits.lock_timeout ?? lockMs}; ${PINNED}`;
  const config: ClientConfig = {
    connectionString: address,
    connectionTimeoutMillis: seconds === undefined ? connectMs : seconds * 1_000,
    // 0 means no limit for both.
    query_timeout: longest > 0 ? longest + SILENCE_MS : 0,
    keepAlive: true,
    application_name: "espalier",
  };
  /** Checked once per pool. A failure is not cached. */
  let checked: Promise<void> | undefined;
  const pool = createPool(place, {
    ...config,
    max: connections,
    allowExitOnIdle: true,
    onConnect: async (client) => {
      checked ??= refuseSharedSessions(client, config, place);
      await checked.catch((error: unknown) => {
        checked = undefined;
        throw error;
      });
      await client.query(pinned);
    },
  });
  // An idle connection that breaks is removed from the pool; a new one is opened when needed.
  pool.on("error", () => undefined);
  let closing: Promise<void> | undefined;
  const assertOpen = () => {
    if (closing) throw new EspalierError("closed", `${place} was closed by this program; open it again.`);
  };
  const withClient = async <Result>(use: (connection: Connection) => Promise<Result>): Promise<Result> => {
    const client = await withStoreErrors(() => pool.connect(), place);
    // The statement's caller gets the error. Without a listener, the error would end the process.
    const ignore = () => undefined;
    client.on("error", ignore);
    let isBroken = false;
    try {
      return await use(connectionOf(client, place));
    } catch (error) {
      isBroken = error instanceof EspalierError && error.code === "unreachable";
      throw error;
    } finally {
      client.off("error", ignore);
      client.release(isBroken);
    }
  };
  /** Uses of connections that have not ended. A pool that ends forgets those that wait for a connection. */
  const running = new Set<Promise<unknown>>();
  const using: typeof withClient = async (use) => {
    assertOpen();
    const work = withClient(use);
    running.add(work);
    return work.finally(() => running.delete(work));
  };
  return {
    place,
    reconnectMs,
    query: <Row extends object>(statement: Statement, values?: readonly unknown[]) =>
      using((connection) => connection.query<Row>(statement, values)),
    transaction: (act) =>
      using(async (connection) => {
        await connection.query({ text: "BEGIN" });
        try {
          const result = await act(connection);
          await connection.query({ text: "COMMIT" });
          return result;
        } catch (error) {
          // If this fails too, the connection is broken and the transaction has ended. The first error has the reason.
          await connection.query({ text: "ROLLBACK" }).catch(() => undefined);
          throw error;
        }
      }),
    async reserve() {
      assertOpen();
      const client = new pg.Client(config);
      const over = new Promise<void>((resolve) => {
        client.on("error", () => resolve());
        client.on("end", () => resolve());
      });
      try {
        await withStoreErrors(async () => {
          await client.connect();
          await client.query(`${pinned}; ${KEEPALIVES}`);
        }, place);
      } catch (error) {
        // A connection that failed during setup would keep the program from ending.
        void endClient(client).catch(() => undefined);
        throw error;
      }
      return {
        ...connectionOf(client, place),
        over,
        onNotification: (listener) => void client.on("notification", listener),
        release: () => endClient(client),
      };
    },
    close() {
      closing ??= Promise.allSettled(running).then(() => pool.end());
      return closing;
    },
  };
}

/** Ends a connection; closes its socket when the server does not answer. */
async function endClient(client: Client): Promise<void> {
  const { stream } = (client as Client & { connection: { stream: Socket } }).connection;
  const timer = setTimeout(() => stream.destroy(), SILENCE_MS);
  await client.end().finally(() => clearTimeout(timer));
}

function connectionOf(client: ClientBase, place: string): Connection {
  return {
    query: <Row extends object>(statement: Statement, values: readonly unknown[] = []) =>
      withStoreErrors(
        async () => (await client.query<Row>({ ...statement, values: [...values] })).rows,
        place,
      ),
  };
}

async function withStoreErrors<Result>(run: () => Promise<Result>, place: string): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw asStoreError(error, place);
  }
}

/** Creates the pool. Problems such as an unreadable certificate file are detected while the address is parsed. */
function createPool(place: string, config: PoolConfig): Pool {
  try {
    return new pg.Pool(config);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const message = `The parameters of the address of ${place} cannot be used (${code ?? "they are not understood"}); check that their files can be read.`;
    throw badAddress(message);
  }
}

/** Number of checks for a shared setting. A single check is not enough: a pooler has several connections to the server. */
const LOOKS = 3;

/**
 * Refuses a pooler that gives a server connection to another program between two transactions, because leases,
 * notifications and settings belong to a connection. A setting of one connection must not be visible in another.
 * Without a pooler, both sides report the same process number, and no check is needed.
 *
 * @throws EspalierError `unsuitable`
 */
async function refuseSharedSessions(client: ClientBase, config: ClientConfig, place: string): Promise<void> {
  const mark = randomUUID();
  const { rows } = await client.query<{ backend: number }>(
    `SELECT pg_backend_pid() AS backend, set_config('espalier.connection', '${mark}', false)`,
  );
  if ((client as ClientBase & { processID?: number }).processID === Number(rows[0]!.backend)) return;
  const other = new pg.Client(config);
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
    await endClient(other).catch(() => undefined);
  }
}

/** The parts of an address such as `postgres://user:password@host:5432/database?namespace=team&sslmode=verify-full`. */
interface StoreAddress {
  /** Address for the client, without our own parameters. Contains the password. */
  connectionString: string;
  /** Namespace of the sessions. Default `default`. */
  namespace: string;
  /** Address for people, without user, password and parameters. */
  place: string;
}

const badAddress = (message: string) => new EspalierError("address", message);

/** Maximum length of a namespace, in characters. */
const LONGEST_NAMESPACE = 128;

/**
 * Parses an address. @throws EspalierError `address`; its message quotes no part of the address, which can contain a
 * password
 */
export function parseStoreAddress(text: string): StoreAddress {
  const url = /^postgres(ql)?:\/\//i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  const database = url && decoded(url.pathname);
  if (!url || database === undefined) {
    throw badAddress(
      "The address of the database cannot be read; write postgres://user@host:5432/database, and characters such as @ or / in a password as %40 or %2F.",
    );
  }
  checkParameters(url);
  const namespace = url.searchParams.get("namespace") ?? "default";
  checkNamespace(namespace);
  url.searchParams.delete("namespace");
  // The client treats these modes as `verify-full` too, but prints a warning on stderr.
  const isStrict = STRICT_ALL_THE_SAME.has(url.searchParams.get("sslmode") ?? "");
  if (isStrict && !url.searchParams.has("uselibpqcompat")) url.searchParams.set("sslmode", "verify-full");
  url.hash = "";
  const host = url.host || url.searchParams.get("host") || "localhost";
  return { connectionString: url.href, namespace, place: `postgres://${host}${database}` };
}

/** Known parameters of an address: our own, the client's, and limits of a connection. */
const PARAMETERS = [
  "namespace",
  ...["statement_timeout", "lock_timeout", "connect_timeout", "application_name", "options"],
  ...["sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "ssl", "uselibpqcompat"],
  ...["host", "port", "user", "password", "client_encoding"],
];

/** Checks the parameters. @throws EspalierError `address` for an unknown parameter, or for two with one name */
function checkParameters({ searchParams, search }: URL): void {
  const names = [...searchParams.keys()];
  const wrong = names.find((name, at) => !PARAMETERS.includes(name) || names.indexOf(name) !== at);
  if (wrong === undefined) return;
  // An unescaped ? in a password makes a parameter of the rest of the password.
  const named = /[@/]/.test(search) || !/^\w{1,40}$/.test(wrong) ? "A parameter" : `The parameter ${wrong}`;
  throw badAddress(
    `${named} of the database's address is unknown or given twice; known parameters are ${PARAMETERS.join(", ")}. A ? in a password is written %3F.`,
  );
}

/** Decodes `%` escapes; undefined when that is impossible. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    // The cause can contain a password, so it is not passed on.
    return undefined;
  }
}

/** Modes with which PostgreSQL's own programs accept any certificate, or any name in it. */
const STRICT_ALL_THE_SAME: ReadonlySet<string> = new Set(["prefer", "require", "verify-ca"]);

/** Checks a namespace. @throws EspalierError `address` */
export function checkNamespace(namespace: string): void {
  const isSound = namespace !== "" && namespace.length <= LONGEST_NAMESPACE && !/[\p{C}/]/u.test(namespace);
  if (!isSound)
    throw badAddress(
      `A namespace has 1 to ${LONGEST_NAMESPACE} visible characters and no slash; name another one.`,
    );
}

/** Limits that an address can set. The client would send them to the server when it connects. */
const LIMITS = ["statement_timeout", "lock_timeout", "connect_timeout"] as const;

/** Returns an address without its limits, and the limits: `connect_timeout` in seconds, the others in milliseconds. */
function withoutLimits(connectionString: string) {
  const url = new URL(connectionString);
  const limits: Partial<Record<(typeof LIMITS)[number], number>> = {};
  for (const name of LIMITS) {
    const said = url.searchParams.get(name);
    url.searchParams.delete(name);
    if (said === null) continue;
    if (!/^\d+$/.test(said))
      throw badAddress(
        `${name} in the address of the database is a number (${name === "connect_timeout" ? "seconds" : "milliseconds"}), for example ${name}=30.`,
      );
    limits[name] = Number(said);
  }
  return { address: url.href, limits };
}
