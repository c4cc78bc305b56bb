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
  /** Steps that were taken by this call. */
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
 * Makes what a store of this address needs, or brings it up to date; a second time, or for a folder, nothing changes.
 * @throws EspalierError
 */
export async function migrateStore(address: string): Promise<StoreMigration> {
  if (!isDatabase(address)) return { place: address, version: 0, applied: [], warnings: [] };
  const { migratePostgres } = await import("@espalier/store-postgres");
  return migratePostgres(address);
}

/** Told without loading what a database needs. */
const isDatabase = (address: string): boolean => /^postgres(ql)?:\/\//i.test(address);

/** A session in a list, and whose it is. */
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
   * Only forks and runs of sub-agents of the session whose id is this one or begins so. The session itself need not be
   * there any more.
   */
  parent?: string;
}

/**
 * Sessions, newest first. A folder below those that are listed and cannot be read is passed over, with a word to
 * `onSkipped`; no link to a folder or a file is followed there.
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

/** Opens a log; undefined where the store has no such session. */
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

/** Takes the lease of an open log, which is closed where that fails. */
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
