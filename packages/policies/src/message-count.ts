import { joinSummary, type Policy, proseOf, readSpan, type SummaryStyle } from "@espalier/compaction";
import { estimateTokens } from "@espalier/session-tree";
import { countActive } from "./active-messages.ts";
import { planKeepingNewest } from "./keep-newest.ts";
import { checkMessageCountSettings, type MessageCountSettings } from "./message-count-settings.ts";
import { renderLines } from "./message-lines.ts";
import { RANGE_SUMMARY_PROMPT } from "./prompts/range-summary.ts";
import { type SessionSummary, SUMMARY_HEADING, stackIn } from "./session-summary.ts";

const STYLE: SummaryStyle = {
  instructions: RANGE_SUMMARY_PROMPT,
  sections: [],
  render: renderLines,
  heading: SUMMARY_HEADING,
};

/**
 * Summarises the older messages when there are too many (origins 000): judged after each append, in the background. Each
 * summary covers its own range and is never rewritten; all of them stand in front of the recent messages, and the
 * originals are found again by `query_history`.
 *
 * @throws PolicyError `settings`
 */
export function messageCount(settings: Partial<MessageCountSettings> = {}): Policy {
  const { maxMessages, keepLast } = checkMessageCountSettings(settings);
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
      // What an extension wrote stands for everything before it, not for a range.
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

/** Prose as a summary has it: tags of ours that somebody else's quotes are escaped there, and take more room. */
const asWritten = (prose: string): string =>
  proseOf(joinSummary(prose, { pinned: [], files: { readFiles: [], modifiedFiles: [] } }, 0));
