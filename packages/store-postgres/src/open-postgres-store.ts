import { type MigrationReport, migrate } from "./migrate.ts";
import { type ConnectionOptions, poolDatabase } from "./pool-database.ts";
import { type PostgresStore, postgresStore } from "./postgres-store.ts";
import { parseStoreAddress } from "./store-address.ts";

/**
 * The sessions of one namespace in the database of an address:
 * `postgres://user:password@host:5432/database?namespace=team&sslmode=verify-full`. Connections are made when the first
 * call needs one; `close` ends them.
 *
 * @throws PostgresStoreError `address`
 */
export function openPostgresStore(address: string, options: ConnectionOptions = {}): PostgresStore {
  const { connectionString, place, namespace } = parseStoreAddress(address);
  return postgresStore(poolDatabase(connectionString, place, options), namespace);
}

/**
 * Makes the tables in the database of an address, or brings them up to date. Two that do so at once do it one after the
 * other; a second time changes nothing.
 *
 * @throws PostgresStoreError
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
