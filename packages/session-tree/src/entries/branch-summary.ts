import { defineEntry, type Entry } from "../entry.ts";
import type { Usage } from "../message.ts";

/** Tells the branch you enter what the branch you left had learnt. */
export interface BranchSummaryEntry extends Entry {
  type: "branch_summary";
  summary: string;
  /** The leaf that was left (files of Pi before 0.84.3 hold the destination). */
  fromId: string;
  /** What its writer keeps of it: files, the merge it records. No model reads it. */
  details?: unknown;
  /** What was billed for the summary; absent where nothing was. */
  usage?: Usage;
  /** True when an extension wrote the summary. */
  fromHook?: boolean;
}

/** The kind of {@link BranchSummaryEntry}: says its summary to the model, as a `branchSummary` message. */
export const branchSummary = defineEntry<BranchSummaryEntry>("branch_summary", {
  movesLeaf: true,
  toMessages: ({ summary, fromId, timestamp }) =>
    summary ? [{ role: "branchSummary", summary, fromId, timestamp: Date.parse(timestamp) }] : [],
  durability: () => "fsync",
  problem: (entry) => (typeof entry.summary !== "string" ? "`summary` is not text" : undefined),
});
