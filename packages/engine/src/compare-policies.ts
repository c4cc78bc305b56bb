import type { Policy } from "@espalier/compaction";
import { planOf } from "./compaction-request.ts";
import { POLICY_NAMES, resolvePolicy } from "./policies.ts";
import type { RequestExtras } from "./request-overhead.ts";
import type { SessionState } from "./session-state.ts";

/** What a policy would do with a session as it is now. Sizes are tokens as that policy counts. */
export interface PolicyComparison {
  policy: string;
  eligible: boolean;
  /** Why there is nothing to compact; null where there is. */
  reason: string | null;
  messagesBefore: number;
  messagesAfter: number;
  tokensBefore: number;
  tokensAfter: number;
  /** Messages that a summary would stand for. */
  summarised: number;
  /** Requests that it would cost, as long as each fits the summarizer's window. */
  calls: number;
}

/** Plans with every policy, each with the session's settings. Nothing is asked of a model, nothing is written. */
export function comparePolicies(session: SessionState, extras: RequestExtras = {}): PolicyComparison[] {
  return POLICY_NAMES.map((name) =>
    compared(session, resolvePolicy(name, session.options.policySettings), extras),
  );
}

function compared(
  session: SessionState,
  policy: Policy,
  { overheadTokens = 0 }: RequestExtras,
): PolicyComparison {
  const { messages } = session.core.context;
  const tokens = messages.reduce((sum, message) => sum + policy.estimate(message), 0);
  const before = { policy: policy.name, messagesBefore: messages.length, tokensBefore: tokens };
  const plan = planned(session, policy, overheadTokens);
  if (!plan.eligible) {
    return {
      ...before,
      eligible: false,
      reason: plan.reason,
      messagesAfter: messages.length,
      tokensAfter: tokens,
      summarised: 0,
      calls: 0,
    };
  }
  const summarised = plan.historyIds.length + plan.turnPrefixIds.length;
  return {
    ...before,
    eligible: true,
    reason: null,
    messagesAfter: plan.keptIds.length + 1,
    tokensAfter: plan.tokensAfter,
    summarised,
    calls: [plan.historyIds, plan.turnPrefixIds].filter(({ length }) => length > 0).length,
  };
}

/** A session that cannot be compacted at all is a row of the table too. */
function planned(session: SessionState, policy: Policy, overheadTokens: number) {
  try {
    return planOf(session, { policy, overheadTokens }).plan;
  } catch (error) {
    if ((error as { code?: unknown }).code !== "irreducible") throw error;
    return { eligible: false as const, reason: (error as Error).message };
  }
}
