import type { Policy } from "@espalier/compaction";
import { estimateTokens } from "@espalier/session-tree";
import { countActive } from "./active-messages.ts";
import { planKeepingNewest } from "./keep-newest.ts";
import { newestWhole } from "./newest-whole.ts";
import { checkSlidingWindowSettings, type SlidingWindowSettings } from "./sliding-window-settings.ts";
import { lastConsolidatedAt, messagesUpTo } from "./sliding-window-state.ts";

/**
 * Summarises in batches what slides out of a window (origins 001): judged after each append, it runs when enough messages
 * stand before the tail, or any and the cooldown has passed. Each run brings the previous summary up to date. A request
 * carries at most `contextSize` messages, however far the runs lag behind.
 *
 * @throws PolicyError `settings`
 */
export function slidingWindow(settings: Partial<SlidingWindowSettings> = {}): Policy {
  const { contextSize, tailKeepSize, compressionWindowSize, compressionCooldownSec, compressionHardLimit } =
    checkSlidingWindowSettings(settings);
  return {
    name: "sliding-window",
    judgedAt: "append",
    estimate: estimateTokens,
    judge({ context, path, now, startedAt }) {
      const delta = countActive(context) - tailKeepSize;
      if (delta <= 0) return undefined;
      if (delta >= compressionWindowSize || delta >= compressionHardLimit) return "policy";
      // Before the first run the cooldown counts from the session's beginning; where nobody knows it, it never passes.
      const since = Date.parse(lastConsolidatedAt(context, path) ?? startedAt ?? "");
      return now - since >= compressionCooldownSec * 1_000 ? "policy" : undefined;
    },
    plan: (situation, options) => planKeepingNewest(tailKeepSize, situation, options),
    shape: (context) => newestWhole(context, contextSize),
    record: (_plan, { covered, at }, situation) => ({
      lastConsolidated: messagesUpTo(situation, covered.lastEntryId),
      lastConsolidatedAt: at,
    }),
  };
}
