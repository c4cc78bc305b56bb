import {
  type CompactionPlan,
  type CompactionReason,
  type CompactionSettings,
  DEFAULT_COMPACTION_SETTINGS,
  goalIn,
  type Policy,
  type PolicySituation,
  tokenBudget,
} from "@espalier/compaction";
import { compaction, isMessage, messageText, type SessionTree } from "@espalier/session-tree";
import { pinnedTexts } from "./pins.ts";
import type { SessionState } from "./session-state.ts";

/** What a compaction is asked for. */
export interface CompactionRequest {
  policy?: Policy;
  settings?: Partial<CompactionSettings>;
  /** Why. Default `manual`. */
  reason?: CompactionReason;
  /** Tokens of system prompt and tools, which are sent besides the context. Default 0. */
  overheadTokens?: number;
}

/** The policy and the plan of a request, at the leaf. Nothing is asked of a model, nothing is written. */
export function planOf(
  session: SessionState,
  request: CompactionRequest,
): { policy: Policy; situation: PolicySituation; plan: CompactionPlan } {
  const { core, options } = session;
  const policy = request.policy ?? options.policy ?? tokenBudget;
  const situation = situationOf(session, request);
  const goal = goalOf(core);
  const plan = policy.plan(situation, {
    pinned: pinnedTexts(core),
    isOverflow: request.reason === "overflow",
    ...(options.tools ? { tools: options.tools } : {}),
    ...(goal ? { goal } : {}),
  });
  return { policy, situation, plan };
}

/** What a policy judges by, at the leaf. */
export function situationOf({ core, options }: SessionState, request: CompactionRequest): PolicySituation {
  return {
    context: core.context,
    path: core.window.entries,
    settings: { ...DEFAULT_COMPACTION_SETTINGS, ...options.compaction, ...request.settings },
    overheadTokens: request.overheadTokens ?? 0,
    now: Date.now(),
  };
}

/** The user's first words on the path. A compaction of ours carries them; only where none does is the whole path read. */
function goalOf(core: SessionTree): string | undefined {
  const { complete, entries } = core.window;
  if (complete || entries.some((entry) => compaction.is(entry) && goalIn(entry.summary) !== undefined))
    return undefined;
  const first = core.getBranch().find((entry) => isMessage(entry, "user"));
  return first && isMessage(first, "user") ? messageText(first.message) : undefined;
}
