import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
import type { Durability } from "./session-store.ts";

/** Options of an append. */
export interface AppendOptions {
  /** What it survives once it is acknowledged. Default: what the most precious of its entries asks for. */
  durability?: Durability;
  /**
   * What becomes of it when the log cannot be written. `throw` (default): the promise is rejected, nothing of it is in
   * memory, and the caller has it still. `queue`: it is kept, in order, and the promise is settled when writing works
   * again or the session is closed; beyond 1,000 entries or 64 MiB it is rejected with `queue-full`.
   */
  onFailure?: "throw" | "queue";
  /**
   * Appends only while this is the leaf, of this session and of its log as it is now: where another writer has moved it,
   * nothing is written, and the error is `moved` with the `leafId` there is. So writers of one session make one line of
   * messages, not two branches. PostgreSQL and memory compare and append in one step; files do among all that compare,
   * while who appends without comparing may come between. Never kept by `onFailure: "queue"`.
   */
  ifLeaf?: string | null;
}

/** What the most precious entry of a batch asks for. */
export function strictestDurability(entries: readonly Entry[]): Durability {
  return entries.some((entry) => kindOf(entry).durability?.(entry) === "fsync") ? "fsync" : "flush";
}
