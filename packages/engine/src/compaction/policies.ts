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

/** Settings of all policies together: no two policies have a setting of the same name. */
export interface PolicySettings
  extends Partial<SlidingWindowSettings>,
    Partial<MessageCountSettings>,
    Partial<OffloadSettings>,
    Partial<PressureSettings> {}

/** Every policy, by the name under which it is chosen. */
export const POLICIES = {
  /** Compacts by tokens, and keeps the newest `keepRecentTokens`; the default. */
  "token-budget": () => tokenBudget,
  /** Summarizes the messages before a tail, after appends. */
  "sliding-window": slidingWindow,
  /** Summarizes the oldest messages above a number of messages; each summary is added to the earlier ones. */
  "message-count": messageCount,
  /** Moves large tool results to files, and compacts when that is not enough. */
  offload,
  /** Prunes messages by priority when the context reaches a percentage of `maxContextTokens`. */
  pressure,
} satisfies Record<string, (settings: PolicySettings) => Policy>;

/** Names of the policies in settings and shells. */
export type PolicyName = keyof typeof POLICIES;

/** The names, the default one first. */
export const POLICY_NAMES = Object.keys(POLICIES) as readonly PolicyName[];

/**
 * Returns a policy: a value unchanged, a name with its settings, `token-budget` for undefined.
 *
 * @throws EspalierError `bad-input` for an unknown name; `settings` for settings that do not fit together
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
