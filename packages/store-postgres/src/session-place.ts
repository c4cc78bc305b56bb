/** Which session is meant: every key and every statement begins with these two. */
export interface SessionPlace {
  namespace: string;
  ref: string;
  /** Tells a session from another one that was made under the same name later. */
  made: string;
}

/** How much of a session there is, or was seen of it. */
export interface Extent {
  lines: number;
  bytes: number;
}
