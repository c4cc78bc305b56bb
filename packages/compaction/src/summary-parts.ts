import type { ContextMessage } from "@espalier/session-tree";
import type { CompactionPreparation } from "./compaction-plan.ts";
import type { GenerateSummaryOptions } from "./generate-summary.ts";
import {
  TURN_PREFIX_SECTIONS,
  TURN_PREFIX_SUMMARIZATION_PROMPT,
} from "./prompts/turn-prefix-summarization-prompt.ts";

/** What separates the summary of the history from that of the turn whose end is kept. */
export const TURN_HEADING = "# Beginning of the current turn";

/** The share of a summary's room that the beginning of a turn takes where there is a history too. */
const TURN_PREFIX_SHARE = 1 / 3;

/** One request of those that a plan takes. */
export interface SummaryPart {
  part: "history" | "turnPrefix";
  messages: readonly ContextMessage[];
  /** The entry of each message. */
  ids: readonly string[];
  ask: Partial<GenerateSummaryOptions>;
}

/** The requests that a plan takes: one for the history, one for the beginning of a turn that is cut. */
export function summaryParts(preparation: CompactionPreparation): SummaryPart[] {
  const { messagesToSummarize, turnPrefixMessages, previousSummary, maxSummaryTokens } = preparation;
  const { historyIds, turnPrefixIds, style = {} } = preparation;
  const { instructions, sections, systemPrompt } = style;
  const hasHistory = messagesToSummarize.length > 0;
  const hasTurnPrefix = turnPrefixMessages.length > 0;
  const prefixTokens = Math.max(1, Math.floor(maxSummaryTokens * (hasHistory ? TURN_PREFIX_SHARE : 1)));
  const history = {
    maxOutputTokens: hasTurnPrefix && hasHistory ? maxSummaryTokens - prefixTokens : maxSummaryTokens,
    ...(previousSummary ? { previousSummary } : {}),
    ...(instructions ? { instructions } : {}),
    ...(sections ? { sections } : {}),
    ...(systemPrompt ? { systemPrompt } : {}),
  };
  const parts: SummaryPart[] = [];
  if (hasHistory)
    parts.push({ part: "history", messages: messagesToSummarize, ids: historyIds, ask: history });
  if (!hasTurnPrefix) return parts;
  // The previous summary tells of the beginning of a turn already: it is brought up to date, instead of telling of two.
  if (!hasHistory && previousSummary?.includes(TURN_HEADING)) {
    return [{ part: "history", messages: turnPrefixMessages, ids: turnPrefixIds, ask: history }];
  }
  const ask = {
    purpose: "turn-prefix" as const,
    instructions: TURN_PREFIX_SUMMARIZATION_PROMPT,
    sections: TURN_PREFIX_SECTIONS,
    maxOutputTokens: prefixTokens,
  };
  parts.push({ part: "turnPrefix", messages: turnPrefixMessages, ids: turnPrefixIds, ask });
  return parts;
}
