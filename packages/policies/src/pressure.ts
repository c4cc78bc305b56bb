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
  thresholdOf,
  trustedTokens,
} from "@espalier/compaction";
import { wordEstimator } from "@espalier/summarizer";
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

/**
 * Size of the next request: the usage that a provider reported, where it still describes the context, plus words for what
 * follows it; else history, system prompt and tools by words, and 50.
 */
const pressingTokens = ({ context, overheadTokens }: PolicySituation): number =>
  trustedTokens(context, overheadTokens, ESTIMATOR);

/** The word rule, each message weighed once. */
const ESTIMATOR = { ...wordEstimator, estimate: TokenCounter.estimate };

/** What counts as full is never more than the model can read beside the reserve for its answer. */
function limitsIn({ settings }: PolicySituation, checked: PressureSettings): PressureSettings {
  return { ...checked, maxContextTokens: Math.min(checked.maxContextTokens, thresholdOf(settings)) };
}

/** How often the room for messages is corrected by what stands beside the summary. */
const CORRECTIONS = 4;

/** Share of the context that stays where it is compacted below every level: by hand. As much as CRITICAL leaves of its 90 %. */
const SHARE_BY_HAND = 60 / 90;

function planPruning(
  situation: PolicySituation,
  options: PlanOptions,
  limits: PressureSettings,
): CompactionPlan {
  const { path } = situation;
  const span = readSpan(path);
  const pressing = pressingTokens(situation);
  const level = CompactionTrigger.checkLevel(pressing, limits);
  const overheadTokens = situation.overheadTokens + TokenCounter.overhead;
  const counted = TokenCounter.messages(situation.context.messages) + overheadTokens;
  // Where the provider counts more than words do, a size of so many of its tokens is fewer of ours.
  const target = Math.floor(pruneTarget(level, limits) * Math.min(1, counted / pressing));
  // Nobody plans below the levels but by hand: then something goes, however much there is room for.
  const isByHand = level === "NONE" && !options.isOverflow;
  const wanted = isByHand ? Math.min(target, Math.floor(counted * SHARE_BY_HAND)) : target;
  const conditions: PlanConditions = {
    pinned: [],
    isOverflow: false,
    ...options,
    estimate: TokenCounter.estimate,
    overheadTokens,
    // A plan made for the target: what stands beside the summary is sized by the small window, not by the model's.
    settings: {
      ...situation.settings,
      contextWindow: limits.maxContextTokens,
      reserveTokens: limits.maxContextTokens - target,
    },
  };
  let budget = wanted - overheadTokens - Math.min(PLANNED_SUMMARY_TOKENS, Math.floor(wanted / 4));
  for (let correction = 1; ; correction++) {
    const selection = select(span, budget);
    if (!hasWork(selection)) break;
    const { plan, fits } = planSelection(span, selection, conditions);
    const excess = plan.tokensAfter + overheadTokens - wanted;
    const isDone = (fits && excess <= 0) || correction === CORRECTIONS;
    if (isDone && (isByHand || plan.tokensAfter < plan.tokensBefore)) return plan;
    if (isDone) break;
    budget -= Math.max(1, excess);
  }
  if (isByHand) return { eligible: false, reason: nothingReason(span) };
  // What must stay is too large by itself, or nothing may go: the default policy's way, with the room there is.
  return prepareCompaction(path, { ...conditions.settings, keepRecentTokens: target / 2 }, conditions);
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

function nothingReason({ items }: CompactionSpan): string {
  const messages = items.reduce((sum, item) => sum + item.messages.length, 0);
  if (messages === 0) return "Nothing to compact: there are no messages yet.";
  return `Nothing to compact: all ${messages} messages are among those that always stay (the newest question, answer and tool messages).`;
}
