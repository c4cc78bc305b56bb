import { EspalierError } from "@espalier/jsonl-stream";
import { redactText } from "@espalier/session-tree";
import { type Policy, tokenBudget } from "../policy.ts";
import { DEFAULT_COMPACTION_SETTINGS, type SettingsTable } from "../settings.ts";
import { MESSAGE_COUNT_SETTINGS, messageCount } from "./message-count.ts";
import { OFFLOAD_SETTINGS, offload } from "./offload.ts";
import { PRESSURE_SETTINGS, pressure } from "./pressure.ts";
import { SLIDING_WINDOW_SETTINGS, slidingWindow } from "./sliding-window.ts";

/** Settings of the default policy. It reads them from the settings of compaction, as every policy can. */
const TOKEN_BUDGET_SETTINGS = {
  keepRecentTokens: {
    default: DEFAULT_COMPACTION_SETTINGS.keepRecentTokens,
    least: 1,
    share: 0.1,
    about: "newest tokens that stay unchanged",
  },
} satisfies SettingsTable;

/**
 * Every policy, by the name under which it is chosen, with its settings. Types, checks, the schema of settings files and
 * the listings follow from this table.
 *
 * @internal
 */
export const POLICIES = {
  /** Compacts by tokens, and keeps the newest `keepRecentTokens`; the default. */
  "token-budget": { make: () => tokenBudget, settings: TOKEN_BUDGET_SETTINGS },
  /** Summarizes the messages before a tail, after appends. */
  "sliding-window": { make: slidingWindow, settings: SLIDING_WINDOW_SETTINGS },
  /** Summarizes the oldest messages above a number of messages; each summary is added to the earlier ones. */
  "message-count": { make: messageCount, settings: MESSAGE_COUNT_SETTINGS },
  /** Moves large tool results to files, and compacts when that is not enough. */
  offload: { make: offload, settings: OFFLOAD_SETTINGS },
  /** Prunes messages by priority when the context reaches a percentage of `maxContextTokens`. */
  pressure: { make: pressure, settings: PRESSURE_SETTINGS },
};

/** Names of the policies in settings and shells. */
export type PolicyName = keyof typeof POLICIES;

/** Settings of all policies together, each optional. */
export interface PolicySettings extends AcceptedByEvery {}
// Inferred from the parameters of several functions, a type is the intersection of the parameters.
type AcceptedByEvery = Maker extends (settings: infer Settings) => Policy ? NonNullable<Settings> : never;
type Maker = (typeof POLICIES)[PolicyName]["make"];

/** The names, the default one first. */
export const POLICY_NAMES = Object.keys(POLICIES) as readonly PolicyName[];

/**
 * Returns a policy: a value unchanged, a name with its settings, `token-budget` for undefined.
 *
 * @throws EspalierError `bad-input` for an unknown name; `settings` for settings that do not fit together
 */
export function resolvePolicy(policy: Policy | string = tokenBudget, settings: PolicySettings = {}): Policy {
  if (typeof policy !== "string") return policy;
  if (Object.hasOwn(POLICIES, policy)) {
    const make: (settings: PolicySettings) => Policy = POLICIES[policy as PolicyName].make;
    return make(settings);
  }
  const message = `There is no policy ${redactText(JSON.stringify(policy))}; choose one of ${POLICY_NAMES.join(", ")}.`;
  throw new EspalierError("bad-input", message);
}
