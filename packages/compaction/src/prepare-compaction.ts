import { type Entry, estimateTokens } from "@espalier/session-tree";
import { CompactionError } from "./compaction-error.ts";
import type { CompactionPlan, CompactionPreparation } from "./compaction-plan.ts";
import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "./compaction-settings.ts";
import { type CompactionSpan, readSpan } from "./compaction-span.ts";
import { cutItems } from "./cut-point.ts";
import { messagesOf, planAt, total } from "./plan-at.ts";
import type { PlanConditions } from "./plan-conditions.ts";
import { smallerAttempts } from "./smaller-attempts.ts";
import { systemInForce } from "./system-in-force.ts";

/** What a plan can be told besides path and settings; see {@link PlanConditions}. */
export type PrepareOptions = Partial<Omit<PlanConditions, "settings">>;

/**
 * Plans a compaction of a path (root first; the end of one, from the first kept entry on, is enough): what is
 * summarised, what stays, and what of that has to be shortened so that the next request fits. Pure: no model is asked.
 *
 * @throws CompactionError `irreducible` when system prompt, tools and the newest user message alone exceed the window
 */
export function prepareCompaction(
  entries: readonly Entry[],
  settings: Partial<CompactionSettings> = {},
  options: PrepareOptions = {},
): CompactionPlan {
  const conditions: PlanConditions = {
    estimate: estimateTokens,
    overheadTokens: 0,
    isOverflow: false,
    pinned: [],
    ...options,
    settings: { ...DEFAULT_COMPACTION_SETTINGS, ...settings },
  };
  const span = readSpan(entries);
  const cut = cutItems(span.items, conditions.settings.keepRecentTokens, conditions.estimate);
  const { plan, fits } = planAt(span, cut, conditions);
  if (fits && hasWork(plan)) return plan;
  if (!hasWork(plan) && isSmall(span, conditions)) return nothing(span, conditions);
  for (const { cut: smaller, most, isBounded } of smallerAttempts(span, cut, conditions)) {
    const attempt = planAt(span, smaller, { ...conditions, isOverflow: isBounded }, most);
    if (attempt.fits && hasWork(attempt.plan)) return attempt.plan;
  }
  throw irreducible(span, conditions);
}

/** Whether there is something to summarise: the system's words and shell runs kept from the model are not. */
const hasWork = ({ messagesToSummarize, turnPrefixMessages }: CompactionPreparation): boolean =>
  [...messagesToSummarize, ...turnPrefixMessages].some(
    (message) => message.role !== "system" && estimateTokens(message) > 0,
  );

/** Whether the context can be sent as it is; after an overflow nobody believes that. */
function isSmall({ visible }: CompactionSpan, conditions: PlanConditions): boolean {
  const { settings, estimate, overheadTokens, isOverflow } = conditions;
  return !isOverflow && total(visible, estimate) + overheadTokens <= thresholdOf(settings);
}

function nothing({ items }: CompactionSpan, { settings, estimate }: PlanConditions): CompactionPlan {
  const said = messagesOf(items);
  if (said.length === 0) return { eligible: false, reason: "Nothing to compact: there are no messages yet." };
  const size = total(said, estimate);
  return {
    eligible: false,
    reason: `Nothing to compact: the messages have ${size} tokens, and the newest ${settings.keepRecentTokens} stay as they are.`,
  };
}

function irreducible(span: CompactionSpan, { settings, overheadTokens, estimate }: PlanConditions) {
  const system = systemInForce(span.visible);
  const newest = span.items[span.latest?.at ?? -1];
  const breakdown = {
    systemAndTools: overheadTokens + (system ? estimate(system) : 0),
    newestUserMessage: total(newest?.messages ?? [], estimate),
    contextWindow: settings.contextWindow,
  };
  return new CompactionError(
    "irreducible",
    `System prompt and tools (${breakdown.systemAndTools} tokens) and the newest user message (${breakdown.newestUserMessage}) do not fit into a window of ${breakdown.contextWindow} tokens; use a model with a larger window.`,
    { breakdown },
  );
}
