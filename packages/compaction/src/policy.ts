import type { ContextMessage, Entry, SessionContext } from "@espalier/session-tree";
import type { CompactionPlan, CompactionReason } from "./compaction-plan.ts";
import type { CompactionSettings } from "./compaction-settings.ts";
import type { PrepareOptions } from "./prepare-compaction.ts";

/** What a policy judges by. */
export interface PolicySituation {
  /** The context at the leaf. */
  context: SessionContext;
  /** The end of the leaf's path, root first, as far as the context reaches. */
  path: readonly Entry[];
  settings: CompactionSettings;
  /** Tokens of system prompt and tools, which are sent besides the context. */
  overheadTokens: number;
  /** Epoch milliseconds. */
  now: number;
}

/** When a policy is judged: before a request goes out and after its answer, or after every append. */
export type PolicyMoment = "request" | "append";

/** When to compact, and what to keep: a value, chosen by configuration. Both functions are pure. */
export interface Policy {
  readonly name: string;
  readonly judgedAt: PolicyMoment;
  /** Size of one message as this policy counts. */
  estimate(message: ContextMessage): number;
  /** Why a compaction is due; undefined when none is. */
  judge(situation: PolicySituation): CompactionReason | undefined;
  /** What a compaction would do. */
  plan(situation: PolicySituation, options: Omit<PrepareOptions, "estimate">): CompactionPlan;
}
