import type { Entry } from "./entry.ts";
import type { SessionTreeError } from "./session-tree-error.ts";

/** What happened to a session, told to everyone who observes it, once it is in the log (and perhaps not yet synced). */
export type SessionChange =
  /** Entries of our own were appended; `leafId` is where that left the leaf. */
  | { type: "appended"; entries: readonly Entry[]; leafId: string | null; previousLeafId: string | null }
  /** Another writer appended the bytes `[from, to)`: new branches, which the tree has. Our leaf stays. */
  | { type: "foreign"; from: number; to: number }
  /** Writing failed. `queued` is what is kept until it works again; nothing of it is in the tree. */
  | {
      type: "persist_failed";
      error: SessionTreeError;
      queued: { entries: number; bytes: number };
    }
  /** Writing works again; `drained` entries that were kept are in the log. */
  | { type: "persist_recovered"; drained: number };

/**
 * Hears of every change of a session, in order, once the session shows it; whoever appends waits until it returns. What
 * it throws is thrown again by itself, uncaught like the error of an event listener: the append has succeeded.
 */
export type SessionObserver = (change: SessionChange) => void;
