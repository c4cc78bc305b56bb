import { type CompactionSettings, thresholdOf } from "./compaction-settings.ts";
import type { CompactionSpan } from "./compaction-span.ts";
import { type CutPoint, cutAt, cutItems, legalCuts } from "./cut-point.ts";
import { total } from "./plan-at.ts";
import { type PlanConditions, sizesUnder } from "./plan-conditions.ts";
import { plannedSummary } from "./summary-limit.ts";

/** A cut that keeps less than another one, and what the next request may then have. */
export interface SmallerAttempt {
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
export function* smallerAttempts(
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
