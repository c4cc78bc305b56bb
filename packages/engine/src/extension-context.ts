import type { Entry } from "@espalier/session-tree";

/** What a handler may ask about the session, in Pi's words. */
export interface SessionManager {
  getSessionId(): string;
  getSessionFile(): string | undefined;
  getLeafId(): string | null;
  getEntry(id: string): Entry | undefined;
  getEntries(): Entry[];
  getBranch(fromId?: string): Entry[];
  getLabel(id: string): string | undefined;
}

/** What a shell offers to extensions; by default nobody is there. */
export interface ExtensionUi {
  notify(message: string, kind?: "info" | "warning" | "error"): void;
}

/** The second argument of every handler. */
export interface ExtensionContext {
  /** The folder the session's agent works in. */
  cwd: string;
  /** Whether a person is there to see what `ui` says. */
  hasUI: boolean;
  ui: ExtensionUi;
  sessionManager: SessionManager;
  /** Ends what is going on. */
  signal: AbortSignal;
}
