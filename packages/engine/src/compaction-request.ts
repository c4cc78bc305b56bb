import {
  type CompactionPlan,
  type CompactionReason,
  type CompactionSettings,
  DEFAULT_COMPACTION_SETTINGS,
  type Policy,
  type PolicySituation,
  tokenBudget,
} from "@espalier/compaction";
import { fileTools } from "@espalier/summarizer";
import { pinnedTexts } from "./pins.ts";
import type { SessionState } from "./session-state.ts";
import { untoldWords } from "./untold-words.ts";

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
  const plan = policy.plan(situation, {
    pinned: pinnedTexts(core),
    isOverflow: request.reason === "overflow",
    tools: toolsOf(session),
    ...untoldWords(core),
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

/** What tools declare about files: the common ones, and those of the session. */
export const toolsOf = ({ options }: Pick<SessionState, "options">) => [
  ...fileTools,
  ...(options.tools ?? []),
];
