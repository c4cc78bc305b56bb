import { isAbsolute, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type LeaseOptions,
  type OpenMode,
  type SessionLease,
  type SessionListing,
  type SessionLog,
  type SessionRef,
  type SessionStore,
  SessionTree,
  type StoreListOptions,
  type Tree,
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
  /** Agent that it was imported from (`claude-code`, `codex`, `pi`); without an import, `pi` in Pi's folder, else `espalier`. */
  agent: string;
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
  /** Lists only sessions of this agent: `espalier`, `claude-code`, `codex`, `pi`. */
  agent?: string;
  /** Lists only sessions whose folder is this one or below it: a path, or the name of a folder on the way. */
  project?: string;
  /** Lists only sessions whose last entry is of this time or later. */
  since?: Date;
  /** Lists only sessions whose last entry is of this time or earlier. */
  until?: Date;
}

/**
 * Lists sessions, the one with the newest last entry first. A folder inside a listed one that cannot be read is skipped
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
  const time = lastTime(listed);
  return (
    (subAgents || listed.parent?.kind !== "subagent") &&
    (parent === undefined || listed.parent?.sessionId.startsWith(parent) === true) &&
    (agent === undefined || listed.agent === agent) &&
    (project === undefined || isInProject(listed.cwd, project)) &&
    (since === undefined || time >= since.getTime()) &&
    (until === undefined || time <= until.getTime())
  );
}

/** Milliseconds of a session's last entry; of its last write, where no entry says a time. */
function lastTime({ updatedAt, modified }: SessionListing): number {
  const time = Date.parse(updatedAt ?? "");
  return Number.isNaN(time) ? Date.parse(modified) : time;
}

function isInProject(cwd: string, project: string): boolean {
  if (/[/\\]|^[.~]/.test(project)) return withinFolder(project)(cwd) || resolve(cwd) === resolve(project);
  return cwd.split(/[/\\]/).includes(project);
}

/**
 * Orders by the last entry what comes by the last write. An entry is written at its time or, when it is imported or
 * copied, later: whatever is as new as the last write of the next one is newer than all that follow.
 */
async function* newestFirst(listings: AsyncIterable<SessionListing>): AsyncGenerator<SessionListing> {
  // The newest at the end.
  const waiting: { time: number; listing: SessionListing }[] = [];
  for await (const listing of listings) {
    const written = Date.parse(listing.modified);
    while (waiting.length > 0 && waiting.at(-1)!.time >= written) yield waiting.pop()!.listing;
    const time = lastTime(listing);
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

/** Run of a sub-agent. */
export interface SubAgentRun {
  listing: ListedSession;
  tree: Tree;
}

/**
 * Reads the sessions of the sub-agents that a session started, and of those that they started, each once: those of the
 * default list. What cannot be read is reported to `onSkipped`.
 */
export async function* subAgentsOf(
  { header }: Pick<SessionTree, "header">,
  options: Pick<ListOptions, "home" | "store" | "onSkipped"> = {},
): AsyncGenerator<SubAgentRun> {
  const { home = espalierHome(), store = fileStore({ home }), onSkipped } = options;
  const runs: ListedSession[] = [];
  for await (const listing of listSessions({ ...options, subAgents: true }))
    if (listing.parent?.kind === "subagent") runs.push(listing);
  const begun = new Set([header?.id]);
  // A set that grows is walked to its end.
  for (const parentId of begun)
    for (const listing of runs) {
      if (listing.parent?.sessionId !== parentId || begun.has(listing.id)) continue;
      begun.add(listing.id);
      const log = await openRun(store, listing.ref, onSkipped);
      if (!log) continue;
      try {
        yield { listing, tree: await (await SessionTree.open(log)).load() };
      } finally {
        await log.close();
      }
    }
}

/** Opens the log of a run to be read; undefined, and reported, where that fails. */
async function openRun(
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
