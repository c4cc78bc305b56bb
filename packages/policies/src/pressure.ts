import {
  type CompactionPlan,
  type CompactionSpan,
  PLANNED_SUMMARY_TOKENS,
  type PlanConditions,
  type Policy,
  type PolicySituation,
  planSelection,
  prepareCompaction,
  readSpan,
  type Selection,
} from "@espalier/compaction";
import { CompactionTrigger } from "./compaction-trigger.ts";
import { HistoryPruner } from "./history-pruner.ts";
import type { PlanOptions } from "./plan-options.ts";
import { checkPressureSettings, type PressureSettings, pruneTarget } from "./pressure-settings.ts";
import { TokenCounter } from "./token-counter.ts";

/**
 * Prunes by priority when the context presses against a size of its own (origins 004), before a request goes out. What is
 * kept is no tail: whatever falls out behind the first kept entry is taken out by edits, and all of it is summarised.
 *
 * @throws PolicyError `settings`
 */
export function pressure(settings: Partial<PressureSettings> = {}): Policy {
  const checked = checkPressureSettings(settings);
  return {
    name: "pressure",
    judgedAt: "request",
    estimate: TokenCounter.estimate,
    judge(situation) {
      const level = CompactionTrigger.checkLevel(pressingTokens(situation), limitsIn(situation, checked));
      return level === "NONE" ? undefined : "threshold";
    },
    fill: (situation) => pressingTokens(situation) / limitsIn(situation, checked).maxContextTokens,
    plan: (situation, options) => planPruning(situation, options, limitsIn(situation, checked)),
  };
}

/** What a request would have: history, system prompt and tools, and 50. */
function pressingTokens({ context, overheadTokens }: PolicySituation): number {
  return TokenCounter.messages(context.messages) + overheadTokens + TokenCounter.overhead;
}

/** What counts as full is never more than the model can read. */
function limitsIn({ settings }: PolicySituation, checked: PressureSettings): PressureSettings {
  return { ...checked, maxContextTokens: Math.min(checked.maxContextTokens, settings.contextWindow) };
}

/** How often the room for messages is corrected by what stands beside the summary. */
const CORRECTIONS = 4;

function planPruning(
  situation: PolicySituation,
  options: PlanOptions,
  limits: PressureSettings,
): CompactionPlan {
  const { path } = situation;
  const span = readSpan(path);
  const level = CompactionTrigger.checkLevel(pressingTokens(situation), limits);
  const target = pruneTarget(level, limits);
  const conditions: PlanConditions = {
    pinned: [],
    isOverflow: false,
    ...options,
    estimate: TokenCounter.estimate,
    overheadTokens: situation.overheadTokens + TokenCounter.overhead,
    // A plan made for the target: what stands beside the summary is sized by the small window, not by the model's.
    settings: {
      ...situation.settings,
      contextWindow: limits.maxContextTokens,
      reserveTokens: limits.maxContextTokens - target,
    },
  };
  let budget = target - conditions.overheadTokens - Math.min(PLANNED_SUMMARY_TOKENS, Math.floor(target / 4));
  for (let correction = 1; ; correction++) {
    const selection = select(span, budget);
    if (!hasWork(selection)) break;
    const { plan, fits } = planSelection(span, selection, conditions);
    const excess = plan.tokensAfter + conditions.overheadTokens - target;
    const isDone = (fits && excess <= 0) || correction === CORRECTIONS;
    if (isDone && plan.tokensAfter < plan.tokensBefore) return plan;
    if (isDone) break;
    budget -= Math.max(1, excess);
  }
  // What must stay is too large by itself, or nothing may go: the default policy's way, with the room there is.
  const isTooLarge = level !== "NONE" || conditions.isOverflow;
  if (isTooLarge)
    return prepareCompaction(path, { ...conditions.settings, keepRecentTokens: target / 2 }, conditions);
  return { eligible: false, reason: nothingReason(situation, limits) };
}

/** What stays and what is summarised, with so many tokens for the messages. */
function select({ items }: CompactionSpan, budget: number): Selection {
  const said = items.flatMap((item) => item.messages.map((message) => ({ item, message })));
  const { keptIndexes } = HistoryPruner.prune(
    said.map(({ message }) => message),
    budget,
  );
  const chosen = new Set(keptIndexes.map((index) => said[index]!.item));
  // The system's words are carried by the compaction; they do not make the kept part begin earlier.
  const first = items.findIndex((item) => chosen.has(item) && !isSystem(item));
  const kept = items.filter((item, at) => first >= 0 && at >= first && chosen.has(item));
  const stays = new Set(kept);
  return {
    history: items.filter((item) => item.messages.length > 0 && !stays.has(item)),
    turnPrefix: [],
    kept,
    isSplitTurn: false,
  };
}

const isSystem = ({ messages }: Selection["kept"][number]): boolean =>
  messages.every(({ role }) => role === "system");

const hasWork = ({ history }: Selection): boolean => history.some((item) => !isSystem(item));

function nothingReason(situation: PolicySituation, limits: PressureSettings): string {
  const percent = Math.round((100 * pressingTokens(situation)) / limits.maxContextTokens);
  return `Nothing to compact: the context is at ${percent}% of ${limits.maxContextTokens} tokens, and pruning is due from ${limits.compactionThreshold}% on.`;
}
