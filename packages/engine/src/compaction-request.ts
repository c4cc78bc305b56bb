import {
  type CompactionPlan,
  type CompactionReason,
  type CompactionSettings,
  DEFAULT_COMPACTION_SETTINGS,
  type Policy,
  type PolicySituation,
  windowInForce,
} from "@espalier/compaction";
import { countMessages } from "@espalier/policies";
import { fileTools } from "@espalier/summarizer";
import { pinnedTexts } from "./pins.ts";
import type { PolicyName } from "./policies.ts";
import { policyInForce } from "./policy-in-force.ts";
import type { SessionState } from "./session-state.ts";
import { untoldWords } from "./untold-words.ts";

/** What a compaction is asked for. */
export interface CompactionRequest {
  /** A policy, or the name of one. Default: the session's. */
  policy?: Policy | PolicyName;
  settings?: Partial<CompactionSettings>;
  /** Why. Default `manual`. */
  reason?: CompactionReason;
  /** Tokens of system prompt and tools, which are sent besides the context. Default 0. */
  overheadTokens?: number;
  /** What was moved to files right before. */
  offloaded?: PolicySituation["offloaded"];
}

/** The policy and the plan of a request, at the leaf. Nothing is asked of a model, nothing is written. */
export function planOf(
  session: SessionState,
  request: CompactionRequest,
): { policy: Policy; situation: PolicySituation; plan: CompactionPlan } {
  const { core } = session;
  const policy = policyInForce(session, request);
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
export function situationOf(session: SessionState, request: CompactionRequest): PolicySituation {
  const { core, options } = session;
  const path = core.window.entries;
  const settings = { ...DEFAULT_COMPACTION_SETTINGS, ...options.compaction, ...request.settings };
  const contextWindow = windowInForce(settings.contextWindow, path, core.context.model);
  return {
    context: core.context,
    path,
    settings: { ...settings, contextWindow },
    overheadTokens: request.overheadTokens ?? 0,
    now: session.now(),
    ...(core.header ? { startedAt: core.header.timestamp } : {}),
    messagesAbove: () => countMessages(core.getBranch().slice(0, -core.window.entries.length || undefined)),
    ...(request.offloaded ? { offloaded: request.offloaded } : {}),
  };
}

/** What tools declare about files: the common ones, and those of the session. */
export const toolsOf = ({ options }: Pick<SessionState, "options">) => [
  ...fileTools,
  ...(options.tools ?? []),
];
