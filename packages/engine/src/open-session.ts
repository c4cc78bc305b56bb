import {
  createId,
  FORMAT_VERSION,
  type OpenMode,
  type SessionHeader,
  type SessionStore,
  SessionTree,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { espalierHome } from "./home.ts";
import { Session } from "./session.ts";

/** Where sessions come from. */
export interface StoreOptions {
  /** The folder that stands for `~/.espalier`; default: `ESPALIER_HOME`, or that. */
  home?: string;
  /** Another store than files below `home`. */
  store?: SessionStore;
}

export interface OpenOptions extends StoreOptions {
  /** `read` changes nothing, whatever is called. Default `write`. */
  mode?: OpenMode;
  /** Open at this entry instead of the leaf that the session says. */
  leafId?: string;
}

/**
 * Opens a session by path or id.
 * @throws SessionTreeError `not-found`, `not-a-file`, `empty-file`, `not-a-session`, `unreadable`, `unknown-entry`
 */
export async function openSession(ref: string, options: OpenOptions = {}): Promise<Session> {
  const store = storeOf(options);
  const log = await store.open(ref, options.mode ?? "write");
  try {
    return new Session(await SessionTree.open(log, options.leafId), store);
  } catch (error) {
    await log.close();
    throw error;
  }
}

export interface CreateOptions extends StoreOptions {
  /** The folder the agent works in; default: the process's. */
  cwd?: string;
  /** The session's id; default: a fresh one. */
  id?: string;
  /** The session this one was forked from or works for. */
  parent?: SessionHeader["parent"];
  /** Where to keep it; by default below `home`, by the folder's name. */
  file?: string;
}

/** Makes a new session: a header, on disk before this answers. Throws `exists`. */
export async function createSession(options: CreateOptions = {}): Promise<Session> {
  const store = storeOf(options);
  const header: SessionHeader = {
    type: "session",
    version: FORMAT_VERSION,
    id: options.id ?? createId(),
    timestamp: new Date().toISOString(),
    cwd: options.cwd ?? process.cwd(),
    ...(options.parent ? { parent: options.parent } : {}),
  };
  const log = await store.create(header, [], options.file);
  return new Session(await SessionTree.open(log), store);
}

/** Removes a session and all that lies beside it; never called by the engine itself. Returns what was removed. */
export async function deleteSession(ref: string, options: StoreOptions = {}): Promise<string[]> {
  return storeOf(options).delete(ref);
}

/** The store that options mean. */
export function storeOf({ store, home = espalierHome() }: StoreOptions): SessionStore {
  return store ?? fileStore({ home });
}
