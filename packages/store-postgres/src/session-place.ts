/** Which session is meant. */
export interface SessionPlace {
  /** What every key and every statement begins with; see {@link sessionKey}. */
  key: string;
  /** The session's name in its namespace. */
  ref: string;
  /** Tells a session from another one that was made under the same name later. */
  made: string;
}

/**
 * The key of a session: its namespace, which has no slash, and its name. One column, since a planner that knows nothing
 * of the tables yet takes two for so selective that it looks for an entry by reading all lines of its session.
 */
export const sessionKey = (namespace: string, ref: string): string => `${namespace}/${ref}`;

/** The namespace that a session is in. */
export const namespaceOf = ({ key }: SessionPlace): string => key.slice(0, key.indexOf("/"));

/** How much of a session there is, or was seen of it. */
export interface Extent {
  lines: number;
  bytes: number;
}

/** An extent as the database tells of it, where numbers of 64 bits are texts. */
export interface ExtentRow {
  lines: string;
  bytes: string;
}

export const extentOf = ({ lines, bytes }: ExtentRow): Extent => ({
  lines: Number(lines),
  bytes: Number(bytes),
});
