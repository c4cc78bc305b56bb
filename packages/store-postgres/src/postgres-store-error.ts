/**
 * What can go wrong between a program and its database, by name. What concerns one session is a `SessionTreeError`.
 *
 * - `address`: an address that cannot be understood
 * - `not-installed`: the package `pg` is missing
 * - `not-migrated`: the database has not the tables this program needs; `espalier store migrate` makes them
 * - `newer`: the tables are of a newer program
 * - `unsuitable`: a server that cannot keep sessions as they are: too old, or another encoding than UTF-8
 * - `refused`: the server does not let us in, or answers a statement with an error; `sqlState` says which
 * - `unreachable`: no connection, or one that was lost: what was under way may have happened or not
 * - `timeout`: a statement took longer than it may, and was taken back
 * - `closed`: this program has ended its connections
 */
export type PostgresStoreErrorCode =
  | "address"
  | "not-installed"
  | "not-migrated"
  | "newer"
  | "unsuitable"
  | "refused"
  | "unreachable"
  | "timeout"
  | "closed";

/** The one error class of this package. No message of it, and nothing behind it, holds a password. */
export class PostgresStoreError extends Error {
  override readonly name = "PostgresStoreError";
  readonly code: PostgresStoreErrorCode;
  /** The five characters by which PostgreSQL names an error; undefined where it was not asked. */
  readonly sqlState: string | undefined;
  /** The rule of a table that was broken; undefined for other errors. */
  readonly constraint: string | undefined;
  constructor(
    code: PostgresStoreErrorCode,
    message: string,
    options: ErrorOptions & { sqlState?: string | undefined; constraint?: string | undefined } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.sqlState = options.sqlState;
    this.constraint = options.constraint;
  }
}
