import {
  type CompactionPlan,
  type CutItem,
  cutAt,
  legalCuts,
  type PlanConditions,
  type PolicySituation,
  planAt,
  prepareCompaction,
  readSpan,
} from "@espalier/compaction";
import { estimateTokens } from "@espalier/session-tree";
import type { PlanOptions } from "./plan-options.ts";

/**
 * Plans a compaction that keeps the newest `count` messages. Where the cut would fall between a call and its results it
 * moves back to the call: more stay, never fewer. Everything before is summarised as one span, whatever turn it ends in.
 * What is kept and does not fit the window is shortened; where not even that helps, less is kept, as the default policy does.
 *
 * @throws CompactionError `irreducible`
 */
export function planKeepingNewest(
  count: number,
  situation: PolicySituation,
  options: PlanOptions,
): CompactionPlan {
  const { path, settings, overheadTokens } = situation;
  const span = readSpan(path);
  const at = cutKeeping(span.items, count);
  if (at <= 0) {
    if (options.isOverflow) return prepareCompaction(path, settings, { overheadTokens, ...options });
    return { eligible: false, reason: nothingBeyond(count, messagesIn(span.items)) };
  }
  const conditions: PlanConditions = {
    estimate: estimateTokens,
    overheadTokens,
    isOverflow: false,
    pinned: [],
    ...options,
    settings,
  };
  const { firstKeptIndex } = cutAt(span.items, at);
  const { plan, fits } = planAt(span, { firstKeptIndex, turnStartIndex: -1, isSplitTurn: false }, conditions);
  if (!fits) {
    // Never more than was to be kept: else a small context that this summary does not fit beside would stay whole.
    const kept = plan.keptMessages.reduce((sum, message) => sum + estimateTokens(message), 0);
    const keepRecentTokens = Math.min(settings.keepRecentTokens, kept);
    return prepareCompaction(path, { ...settings, keepRecentTokens }, { overheadTokens, ...options });
  }
  if (plan.historyIds.length > 0) return plan;
  return { eligible: false, reason: nothingBeyond(count, messagesIn(span.items)) };
}

/** The item from which on at least `count` messages stay and where a path may be cut; -1 when there is none. */
export function cutKeeping(items: readonly CutItem[], count: number): number {
  let at = items.length;
  for (let left = count; at > 0 && left > 0; left -= items[at]!.messages.length) at--;
  return legalCuts(items).lastIndexOf(1, at);
}

const messagesIn = (items: readonly CutItem[]): number =>
  items.reduce((sum, { messages }) => sum + messages.length, 0);

function nothingBeyond(count: number, messages: number): string {
  if (messages === 0) return "Nothing to compact: there are no messages yet.";
  return `Nothing to compact: of ${messages} messages the newest ${count} stay as they are, and what belongs to them.`;
}
