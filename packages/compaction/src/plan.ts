import { EspalierError } from "@espalier/jsonl-stream";
import { type Entry, estimateTokens } from "@espalier/session-tree";
import type { CompactionPlan, CompactionPreparation } from "./compaction-plan.ts";
import {
  type CompactionSpan,
  type CutPoint,
  cutAt,
  cutItems,
  legalCuts,
  readSpan,
  systemInForce,
} from "./cut.ts";
import { messagesOf, type PlanConditions, planAt, sizesUnder, total } from "./plan-at.ts";
import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "./settings.ts";
import { plannedSummary } from "./summary-text.ts";

/** What a plan can be told besides path and settings; see {@link PlanConditions}. */
export type PrepareOptions = Partial<Omit<PlanConditions, "settings">>;

/**
 * Plans a compaction of a path (root first; the end of one, from the first kept entry on, is enough): what is
 * summarised, what stays, and what of that has to be shortened so that the next request fits. Pure: no model is asked.
 *
 * @throws EspalierError `irreducible` when system prompt, tools and the newest user message alone exceed the window
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
  return new EspalierError(
    "irreducible",
    `System prompt and tools (${breakdown.systemAndTools} tokens) and the newest user message (${breakdown.newestUserMessage}) do not fit into a window of ${breakdown.contextWindow} tokens; use a model with a larger window.`,
    { breakdown },
  );
}

/** A cut that keeps less than another one, and what the next request may then have. */
interface SmallerAttempt {
  cut: CutPoint;
  /** Tokens. */
  most: number;
  /** Whether what stays is measured by an upper bound. */
  isBounded: boolean;
}

/**
 * What is tried, in this order, where the next request would not fit: to keep less and less below the threshold; the
 * same in the whole window; where an upper bound finds no room anywhere, the least by estimate. A user message that
 * waits for its answer is cut only when that message is not what is too large.
 */
function* smallerAttempts(
  span: CompactionSpan,
  tried: CutPoint,
  conditions: PlanConditions,
): Generator<SmallerAttempt> {
  const { settings, isOverflow: isBounded } = conditions;
  const [threshold, window] = [thresholdOf(settings), settings.contextWindow];
  const smaller = smallerCuts(span, tried.firstKeptIndex, conditions);
  for (const cut of smaller) yield { cut, most: threshold, isBounded };
  const all = [tried, ...smaller];
  for (const cut of all) yield { cut, most: window, isBounded };
  if (isBounded) for (const cut of all.toReversed()) yield { cut, most: window, isBounded: false };
  if (waitingAt(span) < 0 || !fitsAlone(span, conditions)) return;
  yield { cut: keepNothing(span), most: threshold, isBounded };
}

/** Cuts that keep less than one that begins at `keptFrom`, each less than the one before: half the budget each time. */
function smallerCuts(
  span: CompactionSpan,
  keptFrom: number,
  { settings, estimate }: PlanConditions,
): CutPoint[] {
  const { items } = span;
  const waiting = waitingAt(span);
  const cuts: CutPoint[] = [];
  const add = (cut: CutPoint) => {
    const isSmaller = cut.firstKeptIndex > (cuts.at(-1)?.firstKeptIndex ?? keptFrom);
    if (isSmaller && (waiting < 0 || cut.firstKeptIndex <= waiting)) cuts.push(cut);
  };
  for (let budget = budgetOf(settings) / 2; budget >= 1; budget /= 2) add(cutItems(items, budget, estimate));
  add(waiting < 0 ? keepNothing(span) : cutAt(items, Math.max(0, legalCuts(items).lastIndexOf(1, waiting))));
  return cuts;
}

/** What was to be kept, as far as it can be kept in this window at all. */
const budgetOf = (settings: CompactionSettings): number =>
  Math.min(settings.keepRecentTokens, 2 * settings.contextWindow);

const keepNothing = ({ items }: CompactionSpan): CutPoint => ({
  firstKeptIndex: items.length,
  turnStartIndex: -1,
  isSplitTurn: false,
});

/** The newest user message, when nobody has answered it; -1 otherwise. */
const waitingAt = ({ latest, isUnanswered }: CompactionSpan): number => (isUnanswered ? latest!.at : -1);

/** Whether system prompt, tools, the waiting message and a summary fit the window. */
function fitsAlone(span: CompactionSpan, conditions: PlanConditions): boolean {
  const { settings, overheadTokens, estimate } = conditions;
  const waiting = span.items[waitingAt(span)]?.messages ?? [];
  const sizes = sizesUnder(conditions);
  const system = span.visible.filter(({ role }) => role === "system");
  const alone = total([...waiting, ...system], sizes.message) + overheadTokens;
  return alone + plannedSummary(settings, total(span.visible, estimate)) <= settings.contextWindow;
}
