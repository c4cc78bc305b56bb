import { defineEntry, type Entry } from "../entry.ts";
import type { Usage } from "../message.ts";

/** What a provider billed for a call whose answer is no message: a warmed cache, a summary that was thrown away. */
export interface UsageEntry extends Entry {
  type: "usage";
  kind: string;
  provider: string;
  model: string;
  usage: Usage;
}

export const usage = defineEntry<UsageEntry>("usage", { movesLeaf: false });
