export type { Connection, Database, ReservedConnection, Statement } from "./database.ts";
export { asStoreError } from "./database-errors.ts";
export type { FollowedLine, FollowOptions } from "./follow-session.ts";
export { type MigrationReport, migrate } from "./migrate.ts";
export { migratePostgres, openPostgresStore } from "./open-postgres-store.ts";
export { type ConnectionOptions, poolDatabase } from "./pool-database.ts";
export { type PostgresStore, postgresStore } from "./postgres-store.ts";
export { PostgresStoreError, type PostgresStoreErrorCode } from "./postgres-store-error.ts";
export { DEFAULT_NAMESPACE, isPostgresAddress } from "./store-address.ts";
