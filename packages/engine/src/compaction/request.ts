import {
  type CompactionDetails,
  type CompactionPlan,
  type CompactionReason,
  checkCompaction,
  DEFAULT_COMPACTION_SETTINGS,
  effectiveWindow,
  goalIn,
  latestUserMessageIn,
  type Policy,
  type PolicySituation,
  userTexts,
} from "@espalier/compaction";
import { countMessages, POLICY_NAMES, resolvePolicy } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  CHARS_PER_TOKEN,
  type ContextMessage,
  compaction,
  type Entry,
  estimateBytes,
  isFailedAnswer,
  isMessage,
  message,
  pathRowsOf,
  type SessionContext,
  type ToolDefinition,
  type Tree,
} from "@espalier/session-tree";
import { fileTools, pricesOf } from "@espalier/summarizer";
import { type CacheForecast, cacheChange, forecastCache } from "../reading/index.ts";
import { pinnedTexts, rulesAtLeaf } from "../session/edit.ts";
import type { Session } from "../session/session.ts";
import { currentPolicy } from "../session/state.ts";
import type { CompactionRequest } from "./draft.ts";

/** A plan of a compaction, with its effect on the prompt cache. */
export type PlannedCompaction = CompactionPlan & { cache?: CacheForecast };

/** Returns the policy and the plan of a request at the leaf. Calls no model, writes nothing. */
export function planOf(
  session: Session,
  request: CompactionRequest,
): { policy: Policy; situation: PolicySituation; plan: CompactionPlan } {
  const policy = currentPolicy(session, request);
  const situation = situationOf(session, request);
  const plan = policy.plan(situation, {
    pinned: pinnedTexts(session),
    rules: rulesAtLeaf(session),
    isOverflow: request.reason === "overflow",
    tools: toolsOf(session),
    ...wordsOutsideWindow(session),
  });
  return { policy, situation, plan };
}

/** Returns the plan of a request for people, including its effect on the prompt cache. */
export function forecastPlan(session: Session, request: CompactionRequest): PlannedCompaction {
  const { plan } = planOf(session, request);
  if (!plan.eligible) return plan;
  const { context } = session;
  // The plan counts in the tokens of its policy. They are converted to the context's tokens.
  const tokens = (context.tokens * plan.tokensAfter) / (plan.tokensBefore || 1);
  return { ...plan, cache: forecastCache(context, { tokens, shared: 0 }, pricesAt(session)) };
}

/** Returns the situation at the leaf that a policy evaluates. */
export function situationOf(session: Session, request: CompactionRequest): PolicySituation {
  const { options } = session;
  const path = session.window.entries;
  const own = request.settings && checkCompaction(request.settings);
  const settings = { ...DEFAULT_COMPACTION_SETTINGS, ...options.compaction, ...own };
  const contextWindow = effectiveWindow(settings.contextWindow, path, session.context.model);
  const prices = pricesAt(session);
  return {
    context: session.context,
    path,
    settings: { ...settings, contextWindow },
    overheadTokens: request.overheadTokens ?? 0,
    now: session.now(),
    ...(prices ? { prices } : {}),
    ...(session.header ? { startedAt: session.header.timestamp } : {}),
    messagesAbove: () =>
      countMessages(session.getBranch().slice(0, -session.window.entries.length || undefined)),
    ...(request.offloaded ? { offloaded: request.offloaded } : {}),
  };
}

/** Returns the prices of the next request at the leaf; undefined when they are unknown. */
export const pricesAt = ({ context, options }: Pick<Session, "context" | "options">) =>
  pricesOf(context.model, context.tokens, options.prices);

/** Forecasts the effect of an action on the prompt cache, from the context before it to the current one. */
export const forecastAct = (session: Pick<Session, "context" | "options">, before: SessionContext) =>
  forecastCache(before, cacheChange(before, session.context), pricesAt(session));

/** Returns the tools that declare which files a call reads or changes: the common ones, then those of the session. */
export const toolsOf = ({ options }: Pick<Session, "options">) => [...fileTools, ...(options.tools ?? [])];

/**
 * Returns the user's first and newest message when the loaded end of the path does not have them. A compaction by
 * Espalier has a copy of both; after another compaction they are searched from both ends of the path.
 */
function wordsOutsideWindow(session: Session): { goal?: string; latestUserMessage?: string } {
  const { complete, entries } = session.window;
  if (complete) return {};
  const summary = entries.findLast(compaction.is)?.summary ?? "";
  // In a summary that has a goal and no newest message, the goal was also the newest message.
  if (goalIn(summary) !== undefined) return {};
  const { tree, leafId } = session;
  const leaf = tree.row(leafId!);
  const editing = pathRowsOf(tree, leaf, ({ edit }) => edit !== undefined);
  const edits = Array.from(editing, (row) => tree.entryAt(row));
  const rows = pathRowsOf(tree, leaf, ({ type }) => type === message.type);
  const knowsLatest =
    entries.some((entry) => isMessage(entry, "user")) || latestUserMessageIn(summary) !== undefined;
  const goal = firstText(tree, rows, edits);
  const latestUserMessage = knowsLatest ? undefined : firstText(tree, rows.reverse(), edits);
  return {
    ...(goal === undefined ? {} : { goal }),
    ...(latestUserMessage === undefined ? {} : { latestUserMessage }),
  };
}

/** Returns the first text of the user in these rows; reads no row after it. */
function firstText(tree: Tree, rows: Iterable<number>, edits: readonly Entry[]): string | undefined {
  for (const row of rows) {
    const [text] = userTexts([tree.entryAt(row), ...edits]);
    if (text !== undefined) return text;
  }
  return undefined;
}

/** Automatic compactions in a row that are allowed without an answer of the model between them. */
const MOST_IN_A_ROW = 2;

/**
 * Counts the automatic compactions on the path since the newest successful answer. The part that a compaction keeps may
 * begin after the previous compaction, so each compaction records its count.
 */
export function automaticInARow({ window }: Pick<Session, "window">): number {
  let count = 0;
  for (const entry of window.entries.toReversed()) {
    const { message } = entry as { message?: ContextMessage };
    if (message?.role === "assistant" && !isFailedAnswer(message)) return count;
    if (!compaction.is(entry)) continue;
    const { automaticInARow: recorded, reason } = (entry.details ?? {}) as Partial<CompactionDetails>;
    if (typeof recorded === "number") return count + recorded;
    if (reason !== "manual" && reason !== "policy") count++;
  }
  return count;
}

/**
 * Refuses endless automatic compaction.
 *
 * @throws EspalierError `exhausted` for a compaction with the reason `threshold` or `overflow` after two automatic ones
 * without an answer of the model between them
 */
export function refuseAfterTwo(
  session: Session,
  reason: CompactionReason,
  breakdown: Record<string, number>,
): void {
  // A compaction after an append is caused by new messages: it cannot repeat endlessly.
  if (reason === "manual" || reason === "policy" || automaticInARow(session) < MOST_IN_A_ROW) return;
  const message = `The context was compacted ${MOST_IN_A_ROW} times in a row without an answer of the model, and a compaction is still due; use a model with a larger window, or compact by hand and keep less.`;
  throw new EspalierError("exhausted", message, { breakdown });
}

/** Effect of a policy on the current session. Sizes are tokens as that policy counts. */
export interface PolicyComparison {
  policy: string;
  eligible: boolean;
  /** Reason why the session cannot be compacted; null when it can. */
  reason: string | null;
  messagesBefore: number;
  messagesAfter: number;
  tokensBefore: number;
  tokensAfter: number;
  /** Number of messages that a summary would replace. */
  summarised: number;
  /** Number of requests to the summarizer, if each fits its window. */
  calls: number;
  /** Effect on the prompt cache; null when there is nothing to compact. */
  cache: CacheForecast | null;
}

/** Plans with every policy, each with the session's settings. Calls no model, writes nothing. */
export function comparePolicies(session: Session, extras: RequestExtras = {}): PolicyComparison[] {
  const { overheadTokens = 0 } = extras;
  const { messages } = session.context;
  return POLICY_NAMES.map((name) => {
    const policy = resolvePolicy(name, session.options.policySettings);
    const tokens = sizeOf(messages, policy);
    const plan = planOrReason(session, policy, overheadTokens);
    const { eligible } = plan;
    const [history, prefix] = eligible ? [plan.historyIds.length, plan.turnPrefixIds.length] : [0, 0];
    return {
      policy: policy.name,
      eligible,
      reason: eligible ? null : plan.reason,
      messagesBefore: messages.length,
      messagesAfter: eligible ? plan.keptIds.length + 1 : messages.length,
      tokensBefore: tokens,
      tokensAfter: eligible ? plan.tokensAfter : tokens,
      summarised: history + prefix,
      calls: Number(history > 0) + Number(prefix > 0),
      cache: (eligible && plan.cache) || null,
    };
  });
}

/** Returns the size of messages in tokens, as a policy estimates. */
export const sizeOf = (messages: readonly ContextMessage[], policy: Policy): number =>
  messages.reduce((sum, message) => sum + policy.estimate(message), 0);

/**
 * Returns the plan; for a session that cannot be compacted at all, the reason, so that it still has a row in the table.
 */
function planOrReason(session: Session, policy: Policy, overheadTokens: number): PlannedCompaction {
  try {
    return forecastPlan(session, { policy, overheadTokens });
  } catch (error) {
    if ((error as { code?: unknown }).code !== "irreducible") throw error;
    return { eligible: false as const, reason: (error as Error).message };
  }
}

/** Content of every request in addition to the context. */
export interface RequestExtras {
  system?: string | undefined;
  tools?: readonly ToolDefinition[] | undefined;
  /** Size of this content in tokens. Default: as the policy counts. */
  overheadTokens?: number;
}

/** Returns the tokens of system prompt and tools, as the policy estimates. */
export function overheadOf(policy: Policy, { system, tools = [], overheadTokens }: RequestExtras): number {
  if (overheadTokens !== undefined) return overheadTokens;
  if (!system && tools.length === 0) return 0;
  return policy.estimate({ role: "system", content: system ?? "", toolsAdded: [...tools], timestamp: 0 });
}

/** Returns the bytes of system prompt and tools; when only their tokens are known, the least bytes these can have. */
export function overheadBytesOf({ system = "", tools = [] }: RequestExtras, overheadTokens: number): number {
  const told = estimateBytes({ role: "system", content: system, toolsAdded: [...tools], timestamp: 0 });
  return Math.max(told, overheadTokens * CHARS_PER_TOKEN);
}
