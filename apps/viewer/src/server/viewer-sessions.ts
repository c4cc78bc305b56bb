import type { ListedSession, SearchHit, Session } from "@espalier/engine";

/** Where the sessions come from that a server shows: the shell that starts it decides. */
export interface ViewerSessions {
  /** Newest first. */
  list(): AsyncIterable<ListedSession>;
  /** Opens one to read it. */
  read(ref: string): Promise<Session>;
  /**
   * Opens one to change it, with whatever settings and summarizer hold; `beside` for what stands beside the conversation
   * and may be appended whoever else writes. Only asked by a server that may write.
   */
  write(ref: string, options: { beside: boolean }): Promise<Session>;
  /** Places where a text stands, in all of them. */
  search(query: string, signal: AbortSignal): AsyncIterable<SearchHit>;
}
