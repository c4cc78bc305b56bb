import { isAbsolute, resolve, sep } from "node:path";
import type { SessionListing, SessionStore, StoreListOptions } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { espalierHome, piSessions, sessionFolders } from "./home.ts";

/** A session in a list, and whose it is. */
export interface ListedSession extends SessionListing {
  /** The agent whose folder it lies in. */
  agent: "espalier" | "pi";
}

/** Which sessions are listed. */
export interface ListOptions extends StoreListOptions {
  /** One folder and all below it; default: the engine's own home and, when it exists, the Pi coding agent's. */
  folder?: string;
  /** The folder that stands for `~/.espalier`; default: `ESPALIER_HOME`, or that. */
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
 * @throws SessionTreeError `unreadable` for a folder that was named and cannot be read
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

/** Asked of every session of a list: only a path that is relative to where one stands has to be resolved for it. */
function withinFolder(folder: string): (file: string) => boolean {
  const beginning = resolve(folder) + sep;
  return (file) => (isAbsolute(file) ? file : resolve(file)).startsWith(beginning);
}
