import {
  type ContextEdit,
  type ContextMessage,
  type Entry,
  estimateTokens,
  type SessionContext,
} from "@espalier/session-tree";
import { charsEstimator, type TokenEstimator, usageMeter } from "@espalier/summarizer";
import type {
  CompactionPlan,
  CompactionPreparation,
  CompactionReason,
  EntryRange,
} from "./compaction-plan.ts";
import { type PrepareOptions, prepareCompaction } from "./plan.ts";
import { type CompactionSettings, thresholdOf } from "./settings.ts";

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
  /** When the session began, ISO 8601; absent where nobody knows. */
  startedAt?: string;
  /** How many messages the whole path has above `path`, for who counts from the root; absent: none. */
  messagesAbove?: () => number;
  /** What was moved to files right before this judgement; absent where nothing was tried. */
  offloaded?: Pick<OffloadPlan, "freedTokens" | "stillExceedsThreshold">;
}

/** A compaction that is about to be committed, as the policy that planned it may record it. */
export interface CompactionInTheMaking {
  /** The id of its entry. */
  entryId: string;
  sessionId: string;
  /** The whole text. */
  summary: string;
  fromExtension: boolean;
  /** What the summary replaces. */
  covered: EntryRange;
  /** ISO 8601. */
  at: string;
}

/** When a policy is judged: before a request goes out and after its answer, or after every append. */
export type PolicyMoment = "request" | "append";

/**
 * When to compact, and what to keep: a value, chosen by configuration. Its functions are pure. The first three answer
 * for every policy; what follows is for those that do more than put a summary in front of what they keep.
 */
export interface Policy {
  readonly name: string;
  readonly judgedAt: PolicyMoment;
  /** Size of one message as this policy counts. */
  estimate(message: ContextMessage): number;
  /** Why a compaction is due; undefined when none is. */
  judge(situation: PolicySituation): CompactionReason | undefined;
  /** What a compaction would do. */
  plan(situation: PolicySituation, options: Omit<PrepareOptions, "estimate">): CompactionPlan;
  /** How full the context is, 1 being full. Default: its share of the model's window. */
  fill?(situation: PolicySituation): number;
  /** What of a context goes into a request. Default: all of it. */
  shape?(context: SessionContext): readonly ContextMessage[];
  /**
   * What is moved to files before a request goes out; undefined for nothing.
   * @param pathFor where a text is kept; the same text, the same path
   */
  offload?(situation: PolicySituation, pathFor: (text: string) => string): OffloadPlan | undefined;
  /** What the policy records of a compaction in its `details`, beside what every compaction records. */
  record?(
    plan: CompactionPreparation,
    made: CompactionInTheMaking,
    situation: PolicySituation,
  ): Record<string, unknown>;
}

/** The default policy: compacts when the context comes near the model's window, and keeps the newest tokens. */
export const tokenBudget: Policy = {
  name: "token-budget",
  judgedAt: "request",
  estimate: estimateTokens,
  judge: ({ context, settings, overheadTokens }) =>
    shouldCompact(trustedTokens(context, overheadTokens), settings.contextWindow, settings)
      ? "threshold"
      : undefined,
  plan: ({ path, settings, overheadTokens }, options) =>
    prepareCompaction(path, settings, { overheadTokens, ...options }),
};

/** Whether a context of this size is due for compaction by itself: strictly above the window less the reserve. */
export function shouldCompact(
  contextTokens: number,
  contextWindow: number,
  settings: Pick<CompactionSettings, "autoCompact" | "reserveTokens">,
): boolean {
  return (
    settings.autoCompact &&
    contextTokens > thresholdOf({ contextWindow, reserveTokens: settings.reserveTokens })
  );
}

/**
 * The size of a request for the decision whether to compact: the last usage a provider reported that still describes
 * what stands before it (nothing was compacted or edited since), plus an estimate of what follows; without one, an
 * estimate of everything.
 *
 * @param overheadTokens of system prompt and tools, which a provider has counted and an estimate has not
 * @param estimator characters / 4 by default
 */
export function trustedTokens(
  context: SessionContext,
  overheadTokens = 0,
  estimator: TokenEstimator = charsEstimator,
): number {
  const isTrusted = (index: number) => !context.prefixChanged[index];
  const { tokens, usageIndex } = usageMeter(estimator).measure(context.messages, isTrusted);
  return usageIndex === null ? tokens + overheadTokens : tokens;
}

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
