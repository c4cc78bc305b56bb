import type { Entry } from "@espalier/session-tree";

/** What a handler may ask about the session, in Pi's words. */
export interface SessionManager {
  /** The `id` of the header. */
  getSessionId(): string;
  /** What opens the session: its path, or its address in another store. */
  getSessionFile(): string | undefined;
  /** Null before the first entry. */
  getLeafId(): string | null;
  /** Undefined for an id that is nowhere in the session. */
  getEntry(id: string): Entry | undefined;
  /** All entries, in file order, those of every branch. */
  getEntries(): Entry[];
  /** A path, root first; default that of the leaf. */
  getBranch(fromId?: string): Entry[];
  /** The label in force at an entry. */
  getLabel(id: string): string | undefined;
}

/** What a shell offers to extensions; by default nobody is there. */
export interface ExtensionUi {
  /** Shows a message; default `info`. Where nobody is there it does nothing. */
  notify(message: string, kind?: "info" | "warning" | "error"): void;
}

/** The second argument of every handler. */
export interface ExtensionContext {
  /** The folder the session's agent works in. */
  cwd: string;
  /** Whether a person is there to see what `ui` says. */
  hasUI: boolean;
  /** How to tell that person something. */
  ui: ExtensionUi;
  /** What there is to know of the session, as it is while the handler asks. */
  sessionManager: SessionManager;
  /** Ends what is going on. */
  signal: AbortSignal;
}
