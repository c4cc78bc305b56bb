import { defineEntry, type Entry } from "../entry.ts";
import type { Usage } from "../message.ts";

/** What a provider billed for a call whose answer is no message: a warmed cache, a summary that was thrown away. */
export interface UsageEntry extends Entry {
  type: "usage";
  /** What the call was for: `cache_warm`, `compaction`, `branch_summary`, …; any word is kept. */
  kind: string;
  provider: string;
  model: string;
  usage: Usage;
}

/** The kind of {@link UsageEntry}: a bill beside the conversation; appending one leaves the leaf where it is. */
export const usage = defineEntry<UsageEntry>("usage", {
  movesLeaf: false,
  problem: (entry) =>
    typeof entry.usage !== "object" || entry.usage === null ? "`usage` is missing" : undefined,
});
