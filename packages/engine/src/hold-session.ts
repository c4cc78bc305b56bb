import {
  type LeaseHolder,
  type SessionLease,
  type SessionRef,
  type SessionStore,
  SessionTreeError,
} from "@espalier/session-tree";

/**
 * What to do about a session that somebody else writes: `error` (`busy`, with its `holder`), open it `read-only`,
 * `fork` it and write the fork, or `share` it: write beside the other, each on a branch of his own.
 */
export type OnBusy = "error" | "read-only" | "fork" | "share";

/** What is done about others who write the same session. */
export interface HoldOptions {
  /** Default `error`. */
  onBusy?: OnBusy;
  /**
   * Milliseconds to wait for the one who writes the session, whoever that is; then `onBusy` says what to do. Two servers
   * that open, append and close with it take turns on one session. Default 0: it is told at once.
   */
  waitMs?: number;
  /** False: write without taking the lease, as a label, a name or a pin does. Default true. */
  lease?: boolean;
}

/** What taking the lease came to. */
export interface Hold {
  /** Ours, if we have it. */
  lease?: SessionLease;
  /** Who has it, if somebody else does. */
  heldBy?: LeaseHolder;
}

/** Takes the lease of a session that is to be written. Throws `SessionTreeError` `busy`, `not-found`, `write-failed`. */
export async function holdSession(
  store: SessionStore,
  ref: SessionRef,
  { onBusy = "error", waitMs = 0, lease = true }: HoldOptions,
): Promise<Hold> {
  if (!lease) return {};
  try {
    return { lease: await store.lease(ref, { waitMs }) };
  } catch (error) {
    const heldBy = error instanceof SessionTreeError && error.code === "busy" ? error.holder : undefined;
    if (onBusy === "error" || !heldBy) throw error;
    return { heldBy };
  }
}
