import {
  type CompactionReason,
  type NothingToCompact,
  type Policy,
  type PolicySituation,
  shouldCompact,
  trustedTokens,
} from "@espalier/compaction";
import { situationOf } from "./compaction-request.ts";
import type { CompactionResult, CompactSessionOptions } from "./compaction-run.ts";
import { policyInForce } from "./policy-in-force.ts";
import type { SessionState } from "./session-state.ts";
import { shapedContext } from "./shaped-context.ts";

/** Judges the policy at the leaf and compacts when it says so, or when the next answer has no reserve left. */
export async function compactWhenDue(
  session: SessionState,
  options: CompactSessionOptions,
  compact: (options: CompactSessionOptions) => Promise<CompactionResult | NothingToCompact>,
): Promise<CompactionResult | NothingToCompact | undefined> {
  const policy = policyInForce(session, options);
  const situation = situationOf(session, options);
  if (!situation.settings.autoCompact) return undefined;
  const reason = policy.judge(situation) ?? withoutReserve(policy, situation);
  return reason && compact({ ...options, policy, reason });
}

/**
 * `threshold` where what the policy lets go out takes more than the window less the reserve; that holds under every
 * policy, whatever its own rule is. Undefined where there is room for the answer.
 */
export function withoutReserve(policy: Policy, situation: PolicySituation): CompactionReason | undefined {
  const { context, settings, overheadTokens } = situation;
  const sent = policy.shape ? shapedContext(context, policy.shape(context)) : context;
  const isOver = shouldCompact(trustedTokens(sent, overheadTokens), settings.contextWindow, settings);
  return isOver ? "threshold" : undefined;
}
