export type { Connection, Database, ReservedConnection, Statement } from "./database.ts";
export { asStoreError } from "./database.ts";
export { type MigrationReport, migrate } from "./migrate.ts";
export {
  type ConnectionOptions,
  DEFAULT_NAMESPACE,
  isPostgresAddress,
  poolDatabase,
} from "./pool-database.ts";
export {
  type FollowedLine,
  type FollowOptions,
  migratePostgres,
  openPostgresStore,
  type PostgresStore,
  postgresStore,
} from "./postgres-store.ts";
