import type { SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";

/** A store that was opened by its address. */
export interface OpenStore extends SessionStore {
  /** Lets go of connections; call it when nothing of the store is needed any more. */
  close(): Promise<void>;
}

/** What bringing a store up to date came to. */
export interface StoreMigration {
  /** Where, for people; without password. */
  place: string;
  /** The number of the newest step in force. */
  version: number;
  /** Steps that were taken by this call. */
  applied: string[];
  /** What an operator should know of the server, one sentence each. */
  warnings: string[];
}

/**
 * The store of an address: `postgres://user@host/database?namespace=team` for a database, anything else is a folder
 * that stands for `~/.espalier`. What a database needs is loaded only here.
 *
 * @throws PostgresStoreError `address`
 */
export async function openStore(address: string): Promise<OpenStore> {
  if (!isDatabase(address)) return { ...fileStore({ home: address }), close: async () => undefined };
  const { openPostgresStore } = await import("@espalier/store-postgres");
  return openPostgresStore(address);
}

/**
 * Makes what a store of this address needs, or brings it up to date; a second time, or for a folder, nothing changes.
 * @throws PostgresStoreError
 */
export async function migrateStore(address: string): Promise<StoreMigration> {
  if (!isDatabase(address)) return { place: address, version: 0, applied: [], warnings: [] };
  const { migratePostgres } = await import("@espalier/store-postgres");
  return migratePostgres(address);
}

/** Told without loading what a database needs. */
const isDatabase = (address: string): boolean => /^postgres(ql)?:\/\//i.test(address);
