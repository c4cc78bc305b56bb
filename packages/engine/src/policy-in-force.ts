import type { Policy } from "@espalier/compaction";
import { type PolicyName, resolvePolicy } from "./policies.ts";
import type { SessionState } from "./session-state.ts";

/** The policy of one act: the one it names, else the session's. */
export function policyInForce(
  { policy, options }: Pick<SessionState, "policy" | "options">,
  { policy: named }: { policy?: Policy | PolicyName },
): Policy {
  return named === undefined ? policy : resolvePolicy(named, options.policySettings);
}
