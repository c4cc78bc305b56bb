import type { SessionListing, SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { espalierHome, piSessions, sessionFolders } from "./home.ts";

/** A session in a list, and whose it is. */
export interface ListedSession extends SessionListing {
  /** The agent whose folder it lies in. */
  agent: "espalier" | "pi";
}

/**
 * Sessions, newest first: of one folder and all below it, of another store than files, or of the engine's own home
 * and, when it exists, of the Pi coding agent's.
 */
export async function* listSessions(
  options: { folder?: string; home?: string; store?: SessionStore } = {},
): AsyncGenerator<ListedSession> {
  const home = options.home ?? espalierHome();
  const pi = piSessions();
  const folders = options.folder === undefined ? sessionFolders(home) : [options.folder];
  const { store } = options;
  for await (const listing of (store ?? fileStore({ home, folders })).list()) {
    yield { ...listing, agent: !store && listing.ref.startsWith(pi) ? "pi" : "espalier" };
  }
}
