import { EspalierError } from "@espalier/jsonl-stream";
/** A statement that is sent; with a name it is planned once for each connection. */
export interface Statement {
  /** Name under which the database caches its plan; absent: planned each time. */
  name?: string;
  /** SQL with `$1`, `$2`, … for its values. */
  text: string;
}

/** Sends statements. */
export interface Connection {
  /** Rows as objects. @throws EspalierError `refused`, `unreachable`, `timeout`, `not-migrated`, `closed` */
  query<Row extends object>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

/** A connection with one user until it is released: for locks and notifications, which belong to a connection. */
export interface ReservedConnection extends Connection {
  /** Calls the listener for each notification on the channels that this connection listens to. */
  hear(listener: () => void): void;
  /** Resolves when the connection is gone, or was given back. */
  readonly over: Promise<void>;
  /** Ends it, and with it the locks it holds and what it listens to. */
  release(): Promise<void>;
}

/** A PostgreSQL database, as the store needs it. */
export interface Database extends Connection {
  /** Address for people; no user, no password. */
  readonly place: string;
  /** Milliseconds for which idempotent operations are retried while the connection is lost. */
  readonly reconnectMs: number;
  /** All statements of `act` count, or none. */
  transaction<Result>(act: (connection: Connection) => Promise<Result>): Promise<Result>;
  /** A connection of its own beside the pool. Throws as `query` does. */
  reserve(): Promise<ReservedConnection>;
  /** Ends all connections. */
  close(): Promise<void>;
}

/** Milliseconds until the next attempt: doubled each time, up to the longest. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 1_000;

/**
 * Retries an idempotent operation while the connection is lost, for at most the database's `reconnectMs`.
 * @throws what the last attempt threw
 */
export async function retryIdempotent<Result>(
  { reconnectMs }: Pick<Database, "reconnectMs">,
  act: (attempt: number) => Promise<Result>,
): Promise<Result> {
  const deadline = performance.now() + reconnectMs;
  let pause = FIRST_PAUSE;
  for (let attempt = 1; ; attempt++) {
    try {
      return await act(attempt);
    } catch (error) {
      const isPassing = error instanceof EspalierError && error.code === "unreachable" && !isFinal(error);
      if (!isPassing || performance.now() + pause > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }
}

/** True for errors that a retry cannot cure: an unknown host, trouble with TLS. */
function isFinal({ cause }: EspalierError): boolean {
  return (
    cause instanceof Error && ((cause as NodeJS.ErrnoException).code === "ENOTFOUND" || isTlsTrouble(cause))
  );
}

/** Error of the client: an answer of the server has a severity, anything else is trouble on the way to it. */
interface ClientError extends Error {
  severity?: string;
  code?: string;
  constraint?: string;
}

/** Answers that mean that the server is going down, coming up, or full: the statement was not run, or its end is unknown. */
const COMING_AND_GOING = /^(08...|57P0[123]|53300)$/;

/** A table or schema that is not there; a column that an older table has not. */
const MISSING: ReadonlySet<string> = new Set(["3F000", "42P01", "42703"]);

/** Message of the client when the server asks for a password and there is none. */
const NO_PASSWORD = /client password must be a/;
const TIMED_OUT = "57014";

/** A lock that was not to be had within `lock_timeout`. */
const LOCKED = "55P03";

/** Message of a pooler about a setting that it does not pass on when a connection begins. */
const STARTUP_PARAMETER = /unsupported startup parameter/;

/** Turns an error of a PostgreSQL client into the error that a `Database` throws. */
export function asStoreError(cause: unknown, place: string): unknown {
  if (cause instanceof EspalierError || !(cause instanceof Error)) return cause;
  const { severity, code, constraint, message } = cause as ClientError;
  if (severity !== undefined && STARTUP_PARAMETER.test(message)) {
    return new EspalierError(
      "refused",
      `${place} takes no connection with that setting (${message}); take it out of the address, or add it to ignore_startup_parameters of the pooler.`,
      { cause, sqlState: code },
    );
  }
  if (severity === undefined || (code !== undefined && COMING_AND_GOING.test(code))) {
    // A pooler has one code for all that it says.
    const why = severity === undefined ? (code ?? message) : `${message}, ${code}`;
    if (NO_PASSWORD.test(message)) {
      const message = `${place} asks for a password, and there is none; put it into the address, or into PGPASSWORD.`;
      return new EspalierError("refused", message, { cause });
    }
    if (isTlsTrouble(cause)) {
      return new EspalierError(
        "unreachable",
        `${place} and this program do not agree on TLS (${why}); name the authority that vouches for the server by sslrootcert in the address, and the host as its certificate does, or see sslmode.`,
        { cause },
      );
    }
    return new EspalierError(
      "unreachable",
      `${place} cannot be reached, or the connection was lost (${why}); see that the server runs and can be reached from here.`,
      { cause, sqlState: severity === undefined ? undefined : code },
    );
  }
  if (code === TIMED_OUT) {
    const message = `${place} took too long for a statement, which was taken back; try again, or allow more time by statement_timeout in the address.`;
    return new EspalierError("timeout", message, { cause, sqlState: code });
  }
  if (code === LOCKED) {
    const message = `${place} has a lock on what a statement needs, which something else holds, such as a migration or a backup; try again when that is done, or wait longer by lock_timeout in the address.`;
    return new EspalierError("timeout", message, { cause, sqlState: code });
  }
  if (code !== undefined && MISSING.has(code)) return notMigrated(place, cause);
  return new EspalierError(
    "refused",
    `${place} answers: ${message.replace(/[.\s]*$/, "")} (${code ?? "no code"}).`,
    { cause, sqlState: code, constraint },
  );
}

/** True for trouble with TLS: a certificate that is not trusted or is for another host; a server without TLS. */
function isTlsTrouble({ code, message }: NodeJS.ErrnoException): boolean {
  return /CERT|SELF_SIGNED|ERR_TLS|ERR_SSL|UNABLE_TO/.test(code ?? "") || /\bSSL\b/.test(message);
}

export function notMigrated(place: string, cause?: unknown): EspalierError {
  return new EspalierError(
    "not-migrated",
    `${place} is not set up for sessions, or by an older program; run \`espalier store migrate\` with --store.`,
    { cause },
  );
}
