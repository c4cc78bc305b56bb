/** The version this code writes; files of a newer one are read and never written. */
export const FORMAT_VERSION = 3;

/** Where a session came from, when it is a fork or the run of a sub-agent. */
export interface ParentLink {
  sessionId: string;
  entryId: string | null;
  kind: "fork" | "subagent";
}

/** What an imported session was made from. */
export interface ImportSource {
  agent: string;
  version?: string;
  id: string;
  /** SHA-256 of the source's bytes, hex. */
  digest: string;
}

/** The first line of a session. Keys that are not named here are kept. */
export interface SessionHeader {
  type: "session";
  version: number;
  id: string;
  /** ISO 8601, UTC. */
  timestamp: string;
  /** The folder the agent worked in. */
  cwd: string;
  /** Absolute path of the session this one was forked from, as Pi writes it. */
  parentSession?: string;
  parent?: ParentLink;
  importedFrom?: ImportSource;
  /** The program that made the file, with its version. */
  writer?: string;
}

/**
 * Reads a header from a parsed first line; undefined when the line is none. A missing version is 1 (the first files
 * had no such field), a missing id or folder is empty: what a reader can do without does not stop it.
 */
export function parseHeader(value: unknown): SessionHeader | undefined {
  if (typeof value !== "object" || value === null || (value as { type?: unknown }).type !== "session")
    return undefined;
  const header = value as Partial<SessionHeader>;
  return {
    ...(header as SessionHeader),
    version: typeof header.version === "number" ? header.version : 1,
    id: typeof header.id === "string" ? header.id : "",
    timestamp: typeof header.timestamp === "string" ? header.timestamp : "",
    cwd: typeof header.cwd === "string" ? header.cwd : "",
  };
}
