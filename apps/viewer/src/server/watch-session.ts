import { setTimeout as pause } from "node:timers/promises";
import { leafRowAt } from "@espalier/session-tree";
import type { OpenSessions } from "./open-sessions.ts";

/** How a session stands, for who watches it. */
export interface SessionPulse {
  /** Number of entries. */
  length: number;
  /** Where the session goes on; -1 before the first entry. */
  leafRow: number;
}

/** Milliseconds between two looks at a log; a look costs one call to the system. */
const INTERVAL = 400;

/** Tells how a session stands, at once and each time it has grown, until `signal` ends it. */
export async function* watchSession(
  sessions: OpenSessions,
  key: string,
  signal: AbortSignal,
): AsyncGenerator<SessionPulse> {
  let told = -1;
  while (!signal.aborted) {
    const pulse = await sessions.read(key, ({ tree }) => ({
      length: tree.length,
      leafRow: leafRowAt(tree, tree.lastRow),
    }));
    if (pulse.length !== told) yield pulse;
    told = pulse.length;
    // Ending is no failure: the loop's condition says so.
    await pause(INTERVAL, undefined, { signal }).catch(() => undefined);
  }
}
