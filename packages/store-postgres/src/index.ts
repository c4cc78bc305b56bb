export {
  asStoreError,
  type Connection,
  type ConnectionOptions,
  type Database,
  poolDatabase,
  type ReservedConnection,
  type Statement,
} from "./database.ts";
export { type MigrationReport, migrate } from "./migrate.ts";
export {
  type FollowedLine,
  type FollowOptions,
  migratePostgres,
  openPostgresStore,
  type PostgresStore,
  postgresStore,
} from "./postgres-store.ts";
