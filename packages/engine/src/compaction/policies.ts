import { type Policy, tokenBudget } from "@espalier/compaction";
import {
  type MessageCountSettings,
  messageCount,
  type OffloadSettings,
  offload,
  type PressureSettings,
  pressure,
  type SlidingWindowSettings,
  slidingWindow,
} from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import { redactText } from "@espalier/session-tree";

/** Settings of all policies in one: no two of them have a setting of the same name. */
export interface PolicySettings
  extends Partial<SlidingWindowSettings>,
    Partial<MessageCountSettings>,
    Partial<OffloadSettings>,
    Partial<PressureSettings> {}

/** Every policy, by the name under which it is chosen. */
export const POLICIES = {
  /** By tokens, to the newest `keepRecentTokens`; the default. */
  "token-budget": () => tokenBudget,
  /** Consolidates what leaves a tail of messages, in the rhythm of the appends. */
  "sliding-window": slidingWindow,
  /** Stacks a summary for each span of messages beyond a number. */
  "message-count": messageCount,
  /** Moves large tool results to files, and compacts where that is not enough. */
  offload,
  /** Prunes by priority when the context fills to a percentage. */
  pressure,
} satisfies Record<string, (settings: PolicySettings) => Policy>;

/** The names under which settings and shells know a policy. */
export type PolicyName = keyof typeof POLICIES;

/** The names, the default one first. */
export const POLICY_NAMES = Object.keys(POLICIES) as readonly PolicyName[];

/**
 * The policy that is meant: a value is itself, a name is looked up and gets its settings, nothing is `token-budget`.
 *
 * @throws EspalierError `bad-input` for a name that there is not; `settings`
 */
export function resolvePolicy(policy: Policy | string = tokenBudget, settings: PolicySettings = {}): Policy {
  if (typeof policy !== "string") return policy;
  const make = Object.hasOwn(POLICIES, policy) ? POLICIES[policy as PolicyName] : undefined;
  if (!make) {
    const message = `There is no policy ${redactText(JSON.stringify(policy))}; choose one of ${POLICY_NAMES.join(", ")}.`;
    throw new EspalierError("bad-input", message);
  }
  return make(settings);
}
