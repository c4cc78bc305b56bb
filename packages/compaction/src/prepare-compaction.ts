import { type Entry, estimateTokens } from "@espalier/session-tree";
import { CompactionError } from "./compaction-error.ts";
import type { CompactionPlan, CompactionPreparation } from "./compaction-plan.ts";
import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "./compaction-settings.ts";
import { type CompactionSpan, latestUserMessage, readSpan } from "./compaction-span.ts";
import { cutItems } from "./cut-point.ts";
import { type PlanConditions, planAt, total } from "./plan-at.ts";

/** What a plan can be told besides path and settings; see {@link PlanConditions}. */
export type PrepareOptions = Partial<Omit<PlanConditions, "settings">>;

/**
 * Plans a compaction of a path (root first; the end of one, from the first kept entry on, is enough): what is
 * summarised, what stays, and what of that has to be shortened so that the next request fits. Pure: no model is asked.
 *
 * @throws CompactionError `irreducible` when not even keeping nothing fits the window
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
  const first = planAt(span, cut, conditions);
  if (first.fits) return hasWork(first.plan) ? first.plan : nothing(span, conditions);
  return smallerPlan(span, cut.firstKeptIndex, conditions);
}

/** Keeps less and less until the next request fits: half the budget each time, then nothing at all. */
function smallerPlan(
  span: CompactionSpan,
  firstKeptIndex: number,
  conditions: PlanConditions,
): CompactionPlan {
  let tried = firstKeptIndex;
  for (let budget = conditions.settings.keepRecentTokens / 2; budget >= 1; budget /= 2) {
    const cut = cutItems(span.items, budget, conditions.estimate);
    if (cut.firstKeptIndex <= tried) continue;
    tried = cut.firstKeptIndex;
    const { plan, fits } = planAt(span, cut, conditions);
    if (fits && hasWork(plan)) return plan;
  }
  const nothingKept = { firstKeptIndex: span.items.length, turnStartIndex: -1, isSplitTurn: false };
  const { plan, fits } = planAt(span, nothingKept, conditions);
  if (fits && hasWork(plan)) return plan;
  throw irreducible(span, conditions);
}

const hasWork = ({ historyIds, turnPrefixIds }: CompactionPreparation): boolean =>
  historyIds.length + turnPrefixIds.length > 0;

function nothing({ items }: CompactionSpan, { settings, estimate }: PlanConditions): CompactionPlan {
  const said = items.flatMap(({ messages }) => messages);
  if (said.length === 0) return { eligible: false, reason: "Nothing to compact: there are no messages yet." };
  const size = total(said, estimate);
  return {
    eligible: false,
    reason: `Nothing to compact: the messages have ${size} tokens, and the newest ${settings.keepRecentTokens} stay as they are.`,
  };
}

function irreducible(span: CompactionSpan, { settings, overheadTokens }: PlanConditions): CompactionError {
  const newest = latestUserMessage(span.items)?.text ?? "";
  const breakdown = {
    systemAndTools: overheadTokens,
    newestUserMessage: Math.ceil(newest.length / 4),
    threshold: thresholdOf(settings),
  };
  return new CompactionError(
    "irreducible",
    `System prompt and tools (${breakdown.systemAndTools} tokens) and what must stay do not fit into ${breakdown.threshold} tokens; use a model with a larger window, or reserve less for answers.`,
    { breakdown },
  );
}
