import { isAbsolute, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import type {
  LeaseOptions,
  OpenMode,
  SessionLease,
  SessionListing,
  SessionLog,
  SessionRef,
  SessionStore,
  StoreListOptions,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { espalierHome, piSessions, sessionFolders } from "../settings/home.ts";

/** A store that was opened by its address. */
export interface OpenStore extends SessionStore {
  /** Releases connections; call it when the store is no longer needed. */
  close(): Promise<void>;
}

/** Result of a migration of a store. */
export interface StoreMigration {
  /** Its address for people, without password. */
  place: string;
  /** The number of the newest step. */
  version: number;
  /** Migration steps that this call applied. */
  applied: string[];
  /** Notes on the server for its operator, one sentence each. */
  warnings: string[];
}

/**
 * The store of an address: `postgres://user@host/database?namespace=team` for a database, anything else is a folder
 * used as `~/.espalier`. The parts for a database are loaded only here.
 *
 * @throws EspalierError `address`
 */
export async function openStore(address: string): Promise<OpenStore> {
  if (!isDatabase(address)) return { ...fileStore({ home: address }), close: async () => undefined };
  const { openPostgresStore } = await import("@espalier/store-postgres");
  return openPostgresStore(address);
}

/**
 * Creates the tables of a database, or brings them up to date. Changes nothing when they are current, or for a folder.
 * @throws EspalierError
 */
export async function migrateStore(address: string): Promise<StoreMigration> {
  if (!isDatabase(address)) return { place: address, version: 0, applied: [], warnings: [] };
  const { migratePostgres } = await import("@espalier/store-postgres");
  return migratePostgres(address);
}

/** Returns whether an address is a database's, without loading the database code. */
const isDatabase = (address: string): boolean => /^postgres(ql)?:\/\//i.test(address);

/** A session in a list, and the agent that it belongs to. */
export interface ListedSession extends SessionListing {
  /** The agent whose folder it is in. */
  agent: "espalier" | "pi";
}

/** Filters of a list of sessions. */
export interface ListOptions extends StoreListOptions {
  /** One folder and all below it; default: the engine's own home and, when it exists, the Pi coding agent's. */
  folder?: string;
  /** The folder used as `~/.espalier`; default: `ESPALIER_HOME`, or that. */
  home?: string;
  /** Another store than files. */
  store?: SessionStore;
  /** True: also the runs of sub-agents, which belong to the sessions that began them. Default false. */
  subAgents?: boolean;
  /**
   * Lists only forks and sub-agent runs of the session with this id, or with an id that begins like this. The session
   * itself may be deleted.
   */
  parent?: string;
}

/**
 * Lists sessions, newest first. A folder inside a listed one that cannot be read is skipped and reported to `onSkipped`;
 * links to folders and files are not followed there.
 *
 * @throws EspalierError `unreadable` for a folder that was named and cannot be read
 */
export async function* listSessions(options: ListOptions = {}): AsyncGenerator<ListedSession> {
  const {
    folder,
    home = espalierHome(),
    store,
    parent,
    subAgents = parent !== undefined,
    onSkipped,
  } = options;
  const isOfPi = withinFolder(piSessions());
  const folders = folder === undefined ? sessionFolders(home) : [folder];
  for await (const listing of (store ?? fileStore({ home, folders })).list(onSkipped ? { onSkipped } : {})) {
    if (!subAgents && listing.parent?.kind === "subagent") continue;
    if (parent !== undefined && !listing.parent?.sessionId.startsWith(parent)) continue;
    yield { ...listing, agent: !store && isOfPi(listing.ref) ? "pi" : "espalier" };
  }
}

/** Runs for every session of a list: only a relative path is resolved. */
function withinFolder(folder: string): (file: string) => boolean {
  const beginning = resolve(folder) + sep;
  return (file) => (isAbsolute(file) ? file : resolve(file)).startsWith(beginning);
}

/** Opens a log; undefined when the store has no such session. */
export async function openIfThere(
  store: SessionStore,
  ref: SessionRef,
  mode: OpenMode,
): Promise<SessionLog | undefined> {
  try {
    return await store.open(ref, mode);
  } catch (error) {
    if (error instanceof EspalierError && error.code === "not-found") return undefined;
    throw error;
  }
}

/** Acquires the lease of an open log; closes the log when that fails. */
export async function leaseOf(
  log: SessionLog,
  store: SessionStore,
  options?: LeaseOptions,
): Promise<SessionLease> {
  try {
    return await store.lease({ file: log.ref }, options);
  } catch (error) {
    await log.close();
    throw error;
  }
}
