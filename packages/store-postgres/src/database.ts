/** A statement that is sent; with a name it is planned once for each connection. */
export interface Statement {
  /** What the database remembers its plan by; absent: planned each time. */
  name?: string;
  /** SQL with `$1`, `$2`, … for its values. */
  text: string;
}

/** What statements are sent through. */
export interface Connection {
  /** Rows as objects. @throws PostgresStoreError `refused`, `unreachable`, `timeout`, `not-migrated`, `closed` */
  query<Row extends object>(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
}

/** A connection that is nobody else's until it is given back: for locks and notifications, which belong to one. */
export interface ReservedConnection extends Connection {
  /** Hears what is notified on the channels that this connection listens to. */
  hear(listener: () => void): void;
  /** Resolves when the connection is gone, or was given back. */
  readonly over: Promise<void>;
  /** Ends it, and with it the locks it holds and what it listens to. */
  release(): Promise<void>;
}

/** A PostgreSQL database, as the store needs it. */
export interface Database extends Connection {
  /** Where it is, for people; no user, no password. */
  readonly place: string;
  /** Milliseconds for which what may be done twice is tried again while the connection is lost. */
  readonly reconnectMs: number;
  /** All statements of `act` count, or none. */
  transaction<Result>(act: (connection: Connection) => Promise<Result>): Promise<Result>;
  /** A connection of its own beside the pool. Throws as `query` does. */
  reserve(): Promise<ReservedConnection>;
  /** Ends all connections. */
  close(): Promise<void>;
}
