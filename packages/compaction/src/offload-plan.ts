import type { ContextEdit } from "@espalier/session-tree";

/** What would be moved out of a context into files. Data: nothing is written yet. */
export interface OffloadPlan {
  /** Texts that go to files, each with the path that the context then names. */
  files: { path: string; text: string }[];
  /** What the entries say instead. */
  edits: ContextEdit[];
  offloadedCount: number;
  /** Tokens that the context has less. */
  freedTokens: number;
  /** Whether the context is above the threshold all the same. */
  stillExceedsThreshold: boolean;
}
