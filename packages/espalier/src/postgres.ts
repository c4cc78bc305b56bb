// Sessions in PostgreSQL; needs `pg`.
export {
  type ConnectionOptions,
  type Database,
  type MigrationReport,
  migrate,
  migratePostgres,
  openPostgresStore,
  type PostgresStore,
  PostgresStoreError,
  poolDatabase,
  postgresStore,
} from "@espalier/store-postgres";
