// Sessions in PostgreSQL; needs `pg`.
export {
  type ConnectionOptions,
  type Database,
  type MigrationReport,
  migrate,
  migratePostgres,
  openPostgresStore,
  type PostgresStore,
  poolDatabase,
  postgresStore,
} from "@espalier/store-postgres";
