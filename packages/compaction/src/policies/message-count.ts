import {
  type ContextMessage,
  estimateTokens,
  estimateTotal,
  type SessionContext,
} from "@espalier/session-tree";
import { type CutItem, cutAt, legalCuts, openPairs, readSpan } from "../cut.ts";
import { type CompactionPlan, conditionsFor, planAt, prepareCompaction } from "../plan.ts";
import type { PlanOptions, Policy, PolicySituation } from "../policy.ts";
import { RANGE_SUMMARY_PROMPT } from "../prompts.ts";
import { checkBelow, checkSettings, defaultsOf, type SettingsOf, type SettingsTable } from "../settings.ts";
import { joinSummary, proseOf, type SummaryStyle } from "../summary-text.ts";
import {
  activeMessages,
  countActive,
  renderLines,
  type SessionSummary,
  SUMMARY_HEADING,
  stackIn,
} from "./history.ts";

const STYLE: SummaryStyle = {
  instructions: RANGE_SUMMARY_PROMPT,
  sections: [],
  render: renderLines,
  heading: SUMMARY_HEADING,
};

/**
 * Summarizes the older messages when there are too many (origins 000). The policy is evaluated after each append and
 * runs in the background. Each summary covers its own range and is never rewritten; all summaries come before the
 * recent messages. `query_history` finds the originals.
 *
 * @throws EspalierError `settings`
 */
export function messageCount(settings: Partial<MessageCountSettings> = {}): Policy {
  const checked = checkSettings(MESSAGE_COUNT_SETTINGS, settings);
  const { maxMessages, keepLast } = checkBelow(checked, "keepLast", "maxMessages");
  return {
    name: "message-count",
    judgedAt: "append",
    estimate: estimateTokens,
    judge: ({ context }) => (countActive(context) > maxMessages ? "policy" : undefined),
    plan(situation, options) {
      const { previous } = readSpan(situation.path);
      const stackedOn = previous && asWritten(stackIn(previous));
      return planKeepingNewest(keepLast, situation, {
        ...options,
        style: STYLE,
        ...(stackedOn ? { stackedOn } : {}),
      });
    },
    record(plan, { entryId, sessionId, summary, fromExtension, covered, at }) {
      // A summary of an extension replaces all messages before it, not a range.
      if (fromExtension) return {};
      const before = SUMMARY_HEADING.length + (plan.stackedOn ? plan.stackedOn.length + 1 : 0);
      const sessionSummary: SessionSummary = {
        id: entryId,
        sessionId,
        summary: proseOf(summary).slice(before),
        startMsgId: covered.firstEntryId,
        endMsgId: covered.lastEntryId,
        msgCount: covered.messages,
        createdAt: at,
      };
      return { sessionSummary };
    },
  };
}

/** Returns prose as it is written in a summary: quoted block tags are escaped, which makes them longer. */
const asWritten = (prose: string): string =>
  proseOf(joinSummary(prose, { pinned: [], files: { readFiles: [], modifiedFiles: [] } }, 0));

/** Limits of the number of messages. `keepLast` is from origins 000, which has no value for `maxMessages`. */
export const MESSAGE_COUNT_SETTINGS = {
  /** A compaction is due above this number of active messages. Larger than `keepLast`. Default 50. */
  maxMessages: { default: 50, least: 2, about: "number of messages at which a summary is made" },
  /** Number of newest messages that are kept unchanged. Default 10. */
  keepLast: { default: 10, least: 1, about: "newest messages that stay unchanged" },
} satisfies SettingsTable;

/** Settings of the number of messages. */
export interface MessageCountSettings extends SettingsOf<typeof MESSAGE_COUNT_SETTINGS> {}

/** `keepLast` is from origins 000, which does not name a value for `maxMessages`. */
export const DEFAULT_MESSAGE_COUNT_SETTINGS: MessageCountSettings = defaultsOf(MESSAGE_COUNT_SETTINGS);

/**
 * Plans a compaction that keeps the newest `count` messages, or more: a cut between a call and its results moves back
 * to the call. All messages before the cut are summarized as one span, even if it ends inside a turn. Kept messages
 * that do not fit the window are shortened. If they still do not fit, fewer are kept, as in the default policy.
 *
 * @throws EspalierError `irreducible`
 */
export function planKeepingNewest(
  count: number,
  situation: PolicySituation,
  options: PlanOptions,
): CompactionPlan {
  const { path, settings, overheadTokens } = situation;
  const given = { overheadTokens, ...options };
  const span = readSpan(path);
  const { items } = span;
  const at = cutKeeping(items, count);
  if (at > 0) {
    const { firstKeptIndex } = cutAt(items, at);
    const cut = { firstKeptIndex, turnStartIndex: -1, isSplitTurn: false };
    const { plan, fits } = planAt(span, cut, conditionsFor(settings, given));
    if (fits && plan.historyIds.length > 0) return plan;
    // Keep no more than `count` requires: a small context must not be kept whole when it and the summary do not fit.
    const keepRecentTokens = Math.min(settings.keepRecentTokens, estimateTotal(plan.keptMessages));
    if (!fits) return prepareCompaction(path, { ...settings, keepRecentTokens }, given);
  } else if (options.isOverflow) return prepareCompaction(path, settings, given);
  const messages = items.reduce((sum, item) => sum + item.messages.length, 0);
  const reason =
    messages === 0
      ? "Nothing to compact: there are no messages yet."
      : `Nothing to compact: of ${messages} messages the newest ${count} are kept, with their calls and results.`;
  return { eligible: false, reason };
}

/** Returns the last legal cut that keeps at least `count` messages; -1 when there is none. */
export function cutKeeping(items: readonly CutItem[], count: number): number {
  let at = items.length;
  for (let left = count; at > 0 && left > 0; left -= items[at]!.messages.length) at--;
  return legalCuts(items).lastIndexOf(1, at);
}

/**
 * Returns a context's messages with at most the newest `limit` active ones; the summary and the system messages before
 * them are not counted. A call and its results are included or left out together, so the result may have fewer
 * messages. If no message would be left, the newest call stays with all its results.
 */
export function newestWhole(
  context: Pick<SessionContext, "messages" | "sources">,
  limit: number,
): readonly ContextMessage[] {
  const active = activeMessages(context);
  if (active.length <= limit) return context.messages;
  const from = firstUnsplit(active, active.length - limit);
  return [...context.messages.slice(0, context.messages.length - active.length), ...active.slice(from)];
}

/**
 * Returns the first index at or after `from` at which a cut separates no call from its results, else the last such
 * index before it; 0 when there is none.
 */
function firstUnsplit(messages: readonly ContextMessage[], from: number): number {
  const open = openPairs(messages.map((message) => [message]));
  for (let at = from; at < messages.length; at++) if (open[at] === 0) return at;
  for (let at = from; at > 0; at--) if (open[at] === 0) return at;
  return 0;
}
