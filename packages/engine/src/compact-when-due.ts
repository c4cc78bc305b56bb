import type { NothingToCompact } from "@espalier/compaction";
import { situationOf } from "./compaction-request.ts";
import type { CompactionResult, CompactSessionOptions } from "./compaction-run.ts";
import { policyInForce } from "./policy-in-force.ts";
import type { SessionState } from "./session-state.ts";

/** Judges the policy at the leaf and compacts when it says so. */
export async function compactWhenDue(
  session: SessionState,
  options: CompactSessionOptions,
  compact: (options: CompactSessionOptions) => Promise<CompactionResult | NothingToCompact>,
): Promise<CompactionResult | NothingToCompact | undefined> {
  const policy = policyInForce(session, options);
  const situation = situationOf(session, options);
  if (!situation.settings.autoCompact) return undefined;
  const reason = policy.judge(situation);
  return reason && compact({ ...options, policy, reason });
}
