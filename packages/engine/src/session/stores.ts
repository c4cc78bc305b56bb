import { isAbsolute, resolve, sep, win32 } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type LeaseOptions,
  type SessionLease,
  type SessionListing,
  type SessionLog,
  type SessionStore,
  SessionTree,
  type StoreListOptions,
  type Tree,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { espalierHome, piSessions, sessionFolders } from "../settings/home.ts";

/** A store that was opened by its address, and that has to be closed. */
export interface OpenStore extends SessionStore {
  /** Releases connections; call it when the store is no longer needed. */
  close(): Promise<void>;
}

/** Result of a migration of a store. */
export interface StoreMigration {
  /** Address of the store for people, without password. */
  place: string;
  /** Number of the newest migration step; 0 for a folder. */
  version: number;
  /** Migration steps that this call applied. */
  applied: string[];
  /** Notes on the server for its operator, one sentence each. */
  warnings: string[];
}

/** Databases that store sessions. The code of each is loaded only when needed. */
const DATABASES = [
  {
    scheme: "postgres://",
    pattern: /^postgres(ql)?:\/\//i,
    async load() {
      const { openPostgresStore, migratePostgres } = await import("@espalier/store-postgres");
      return { open: openPostgresStore, migrate: migratePostgres };
    },
  },
];

/** Beginnings of the addresses of databases. */
export const STORE_SCHEMES: readonly string[] = DATABASES.map(({ scheme }) => scheme);

/**
 * Opens the store of an address: `postgres://user@host/database?namespace=team` for a database; a path is a
 * folder used as `~/.espalier`.
 *
 * @throws EspalierError `address`
 */
export async function openStore(address: string): Promise<OpenStore> {
  const database = await databaseAt(address);
  return database?.open(address) ?? { ...fileStore({ home: address }), close: async () => undefined };
}

/**
 * Creates or updates the tables of a database. Does nothing when they are current, or for a folder.
 *
 * @throws EspalierError `address`; errors of the database
 */
export async function migrateStore(address: string): Promise<StoreMigration> {
  const database = await databaseAt(address);
  return database?.migrate(address) ?? { place: address, version: 0, applied: [], warnings: [] };
}

/**
 * Loads the database of an address; undefined for a path. Throws `address` for any other URL. The message names only
 * its scheme, because a URL can contain a password.
 */
async function databaseAt(address: string) {
  const database = DATABASES.find(({ pattern }) => pattern.test(address));
  if (database) return database.load();
  // One letter is a drive of Windows.
  const [kind] = /^[a-z][a-z0-9+.-]+:/i.exec(address) ?? [];
  if (kind === undefined) return undefined;
  const addresses = STORE_SCHEMES.map((scheme) => `${scheme}user@host/database`).join(", ");
  throw new EspalierError(
    "address",
    `No store has an address that begins with ${kind}; give ${addresses}, or a folder (write ./ before its name).`,
  );
}

/** A session in a list, and its agent. */
export interface ListedSession extends SessionListing {
  /**
   * Agent of the session: the one of its import (`claude-code`, `codex`, `pi`); without an import, `pi` in Pi's folder,
   * else `espalier`.
   */
  agent: string;
}

/** Filters of a list of sessions. */
export interface ListOptions extends StoreListOptions {
  /**
   * Folder to list, including its subfolders. Default: the engine's own home and, when it exists, that of the Pi coding
   * agent.
   */
  folder?: string;
  /** Folder used as `~/.espalier`. Default: `ESPALIER_HOME`, else `~/.espalier`. */
  home?: string;
  /** Another store than files. */
  store?: SessionStore;
  /**
   * True: lists also the runs of sub-agents, which belong to the sessions that started them. Default false; true with
   * `parent`.
   */
  subAgents?: boolean;
  /**
   * Lists only forks and sub-agent runs of the session with this id or beginning of an id. That session itself may be
   * deleted.
   */
  parent?: string;
  /** Lists only sessions of this agent: `espalier`, `claude-code`, `codex`, `pi`. */
  agent?: string;
  /**
   * Lists only sessions whose working folder is this one or below it: a path, or the name of any folder in the path.
   */
  project?: string;
  /** Lists only sessions whose last entry (or last write, if its time is invalid) is from this time or later. */
  since?: Date;
  /** Lists only sessions whose last entry (or last write, if its time is invalid) is from this time or before. */
  until?: Date;
}

/**
 * Lists sessions, the one with the newest last entry first. A folder or file below that cannot be read is skipped
 * and reported to `onSkipped`; links to folders and files are not followed there.
 *
 * @throws EspalierError `unreadable` for a folder that was named and cannot be read
 */
export async function* listSessions(options: ListOptions = {}): AsyncGenerator<ListedSession> {
  const { folder, home = espalierHome(), store, onSkipped } = options;
  const isOfPi = withinFolder(piSessions());
  const folders = folder === undefined ? sessionFolders(home) : [folder];
  const listings = (store ?? fileStore({ home, folders })).list(onSkipped ? { onSkipped } : {});
  for await (const listing of newestFirst(listings)) {
    const agent = listing.importedFrom ?? (!store && isOfPi(listing.ref) ? "pi" : "espalier");
    const listed = { ...listing, agent };
    if (isListed(listed, options)) yield listed;
  }
}

function isListed(listed: ListedSession, options: ListOptions): boolean {
  const { parent, subAgents = parent !== undefined, agent, project, since, until } = options;
  const time = Date.parse(lastTimeOf(listed));
  return (
    (subAgents || listed.parent?.kind !== "subagent") &&
    (parent === undefined || listed.parent?.sessionId.startsWith(parent) === true) &&
    (agent === undefined || listed.agent === agent) &&
    (project === undefined || isInProject(listed.cwd, project)) &&
    (since === undefined || time >= since.getTime()) &&
    (until === undefined || time <= until.getTime())
  );
}

/** Returns the time of a session's last entry (ISO 8601), or of its last write when the entry has no valid time. */
export const lastTimeOf = ({
  updatedAt,
  modified,
}: Pick<SessionListing, "updatedAt" | "modified">): string =>
  updatedAt !== null && !Number.isNaN(Date.parse(updatedAt)) ? updatedAt : modified;

function isInProject(cwd: string, project: string): boolean {
  if (!/[/\\]|^[.~]/.test(project)) return cwd.split(/[/\\]/).includes(project);
  if (isAbsolute(cwd)) return withinFolder(project)(cwd) || resolve(cwd) === resolve(project);
  // An unknown folder, or one of Windows in an imported session. It is not relative to this process's folder.
  return cwd !== "" && (cwd === project || cwd.startsWith(project + win32.sep));
}

/**
 * Sorts listings that come in the order of their last write by their last entry. An entry is written at its time or,
 * after an import or a copy, later. So a session whose last entry is as new as the next listing's last write is newer
 * than all following ones.
 */
async function* newestFirst(listings: AsyncIterable<SessionListing>): AsyncGenerator<SessionListing> {
  // Sorted; the newest comes last.
  const waiting: { time: number; listing: SessionListing }[] = [];
  for await (const listing of listings) {
    const written = Date.parse(listing.modified);
    while (waiting.length > 0 && waiting.at(-1)!.time >= written) yield waiting.pop()!.listing;
    const time = Date.parse(lastTimeOf(listing));
    let low = 0;
    for (let high = waiting.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if (waiting[middle]!.time < time) low = middle + 1;
      else high = middle;
    }
    waiting.splice(low, 0, { time, listing });
  }
  for (let next = waiting.pop(); next; next = waiting.pop()) yield next.listing;
}

/** A run of a sub-agent. */
export interface SubAgentRun {
  listing: ListedSession;
  tree: Tree;
}

/**
 * Reads the sessions of the sub-agents that a session started directly or through other sub-agents, each once, from the
 * default list. Unreadable sessions are reported to `onSkipped`.
 */
export async function* subAgentsOf(
  { header }: Pick<SessionTree, "header">,
  options: Pick<ListOptions, "home" | "store" | "onSkipped"> = {},
): AsyncGenerator<SubAgentRun> {
  const { home = espalierHome(), store = fileStore({ home }), onSkipped } = options;
  const listed: ListedSession[] = [];
  for await (const listing of listSessions({ ...options, subAgents: true })) listed.push(listing);
  for (const listing of runsBelow(header?.id, listed)) {
    const log = await openOrSkip(store, listing.ref, onSkipped);
    if (!log) continue;
    try {
      yield { listing, tree: await (await SessionTree.open(log)).load() };
    } finally {
      await log.close();
    }
  }
}

/** Yields the listed sub-agents of a session, each once: those started directly, and through other sub-agents. */
export function* runsBelow<Listed extends Pick<ListedSession, "id" | "parent">>(
  id: string | undefined,
  listed: readonly Listed[],
): Generator<Listed> {
  const begun = new Set([id]);
  // The set grows during the loop, which visits the added ids too.
  for (const parentId of begun)
    for (const run of listed) {
      if (run.parent?.kind !== "subagent" || run.parent.sessionId !== parentId || begun.has(run.id)) continue;
      begun.add(run.id);
      yield run;
    }
}

/** Opens a listed log for reading. Undefined, and reported to `onSkipped`, when that fails, such as for a removed log. */
export async function openOrSkip(
  store: SessionStore,
  file: string,
  onSkipped: ListOptions["onSkipped"],
): Promise<SessionLog | undefined> {
  try {
    return await store.open({ file }, "read");
  } catch (error) {
    if (!(error instanceof EspalierError)) throw error;
    onSkipped?.(file, error);
    return undefined;
  }
}

/**
 * Returns a filter for sessions below a folder. It runs for every session of a list, and therefore only resolves
 * relative paths.
 */
function withinFolder(folder: string): (file: string) => boolean {
  const beginning = resolve(folder) + sep;
  return (file) => (isAbsolute(file) ? file : resolve(file)).startsWith(beginning);
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
