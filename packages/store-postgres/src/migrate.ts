import type { Connection, Database } from "./database.ts";
import { notMigrated } from "./database-errors.ts";
import { migrations } from "./migrations/migrations.ts";
import { persistently } from "./persistently.ts";
import { PostgresStoreError } from "./postgres-store-error.ts";

/** What bringing the tables up to date came to. */
export interface MigrationReport {
  /** Where, for people. */
  place: string;
  /** The number of the newest step that is in force now. */
  version: number;
  /** Steps that were taken by this call, `number name`. */
  applied: string[];
  /** What an operator should know of this server, one sentence each. */
  warnings: string[];
}

/** The oldest PostgreSQL whose behaviour the statements rely on. */
const OLDEST_SERVER = 140_000;

/** The advisory lock under which tables are changed: "espalier" in ASCII, as a number of 63 bits. */
const LOCK = 0x6573_7061n * 0x1_0000_0000n + 0x6c69_6572n;

/** Milliseconds to wait for another program that changes the tables, or uses them. */
const LOCK_MS = 30_000;

/**
 * Makes the tables, or brings them up to date: each step once, all of them or none, one program at a time.
 * @throws PostgresStoreError `unsuitable`, `newer`, `refused`, `unreachable`
 */
export async function migrate(database: Database): Promise<MigrationReport> {
  const warnings = await inspectServer(database);
  const applied = await database.transaction(async (connection) => {
    await connection.query({ text: `SET LOCAL lock_timeout = ${LOCK_MS}` });
    await connection.query({ text: "SELECT pg_advisory_xact_lock($1::bigint)" }, [LOCK.toString()]);
    await connection.query({ text: SETUP });
    const current = await versionOf(connection);
    if (current > newest()) throw newer(database.place, current);
    const missing = migrations.filter(({ number }) => number > current);
    for (const { number, name, sql } of missing) {
      await connection.query({ text: sql });
      await connection.query({ text: "INSERT INTO espalier.migration (number, name) VALUES ($1, $2)" }, [
        number,
        name,
      ]);
    }
    return missing.map(({ number, name }) => `${number} ${name}`);
  });
  return { place: database.place, version: newest(), applied, warnings };
}

/** @throws PostgresStoreError `not-migrated`, `newer`, and what keeps us from asking */
export async function checkVersion(database: Database): Promise<void> {
  const current = await persistently(database, () => versionOf(database));
  if (current < newest()) throw notMigrated(database.place);
  if (current > newest()) throw newer(database.place, current);
}

const SETUP = `CREATE SCHEMA IF NOT EXISTS espalier;
CREATE TABLE IF NOT EXISTS espalier.migration (
  number integer PRIMARY KEY,
  name text NOT NULL,
  applied timestamptz NOT NULL DEFAULT clock_timestamp()
)`;

const newest = (): number => migrations.at(-1)!.number;

async function versionOf(connection: Connection): Promise<number> {
  const [row] = await connection.query<{ version: number }>({
    text: "SELECT coalesce(max(number), 0) AS version FROM espalier.migration",
  });
  return Number(row!.version);
}

async function inspectServer(database: Database): Promise<string[]> {
  const [server] = await database.query<{ version: string; encoding: string; fsync: string }>({
    text: `SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
      current_setting('fsync') AS fsync`,
  });
  const { version, encoding, fsync } = server!;
  if (Number(version) < OLDEST_SERVER)
    throw new PostgresStoreError("unsuitable", `${database.place} is older than PostgreSQL 14; upgrade it.`);
  if (encoding !== "UTF8") {
    const message = `${database.place} keeps text as ${encoding}; make a database with ENCODING 'UTF8' for sessions.`;
    throw new PostgresStoreError("unsuitable", message);
  }
  if (fsync === "on") return [];
  return [
    "fsync is off on this server: what it acknowledges may not survive a loss of power. Set it to on for anything that shall be kept.",
  ];
}

const newer = (place: string, version: number) =>
  new PostgresStoreError(
    "newer",
    `${place} has tables of version ${version}, made by a newer program than this one (${newest()}); upgrade this program.`,
  );
