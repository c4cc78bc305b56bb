import {
  createId,
  FORMAT_VERSION,
  type OpenMode,
  type SessionHeader,
  type SessionLog,
  type SessionStore,
  SessionTree,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { contextForHandlers } from "./context-for-handlers.ts";
import { espalierHome } from "./home.ts";
import { sessionStart } from "./hooks.ts";
import { type ExtensionOptions, loadExtensions } from "./load-extensions.ts";
import { Session } from "./session.ts";
import type { SessionOptions } from "./session-state.ts";

/** Where sessions come from. */
export interface StoreOptions {
  /** The folder that stands for `~/.espalier`; default: `ESPALIER_HOME`, or that. */
  home?: string;
  /** Another store than files below `home`. */
  store?: SessionStore;
}

export interface OpenOptions extends StoreOptions, SessionOptions, ExtensionOptions {
  /** `read` changes nothing, whatever is called. Default `write`. */
  mode?: OpenMode;
  /** Open at this entry instead of the leaf that the session says. */
  leafId?: string;
}

/**
 * Opens a session by path or id, with its extensions.
 * @throws SessionTreeError `not-found`, `not-a-file`, `empty-file`, `not-a-session`, `unreadable`, `unknown-entry`;
 *   ExtensionError for an extension that was named and cannot be loaded
 */
export async function openSession(ref: string, options: OpenOptions = {}): Promise<Session> {
  const store = storeOf(options);
  return begin(await store.open(ref, options.mode ?? "write"), store, options);
}

export interface CreateOptions extends StoreOptions, SessionOptions, ExtensionOptions {
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
  return begin(await store.create(header, [], options.file), store, options);
}

/** Removes a session and all that lies beside it; never called by the engine itself. Returns what was removed. */
export async function deleteSession(ref: string, options: StoreOptions = {}): Promise<string[]> {
  return storeOf(options).delete(ref);
}

/** The store that options mean. */
export function storeOf({ store, home = espalierHome() }: StoreOptions): SessionStore {
  return store ?? fileStore({ home });
}

async function begin(log: SessionLog, store: SessionStore, options: OpenOptions): Promise<Session> {
  try {
    const session = new Session(
      await SessionTree.open(log, options.leafId),
      store,
      options,
      options.onReport,
    );
    await loadExtensions(session, options, options.home ?? espalierHome());
    await session.host.notify(
      sessionStart,
      { sessionId: session.id, file: session.file },
      contextForHandlers(session),
    );
    return session;
  } catch (error) {
    await log.close();
    throw error;
  }
}
