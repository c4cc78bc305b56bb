import type { SessionListing } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { espalierHome, piSessions, sessionFolders } from "./home.ts";

/** A session in a list, and whose it is. */
export interface ListedSession extends SessionListing {
  /** The agent whose folder it lies in. */
  agent: "espalier" | "pi";
}

/**
 * Sessions, newest first: of one folder and all below it, or of the engine's own home and, when it exists, of the Pi
 * coding agent's.
 */
export async function* listSessions(
  options: { folder?: string; home?: string } = {},
): AsyncGenerator<ListedSession> {
  const home = options.home ?? espalierHome();
  const pi = piSessions();
  const folders = options.folder === undefined ? sessionFolders(home) : [options.folder];
  for await (const listing of fileStore({ home, folders }).list()) {
    yield { ...listing, agent: listing.ref.startsWith(pi) ? "pi" : "espalier" };
  }
}
