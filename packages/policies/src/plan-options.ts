import type { Policy } from "@espalier/compaction";

/** What a policy's plan can be told besides the situation. */
export type PlanOptions = Parameters<Policy["plan"]>[1];
