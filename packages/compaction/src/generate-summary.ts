import type { ContextMessage } from "@espalier/session-tree";
import { type RequestSummaryOptions, requestSummary, type SummaryAnswer } from "@espalier/summarizer";
import { HISTORY_SECTIONS, SUMMARIZATION_PROMPT } from "./prompts/summarization-prompt.ts";
import { UPDATE_SUMMARIZATION_PROMPT } from "./prompts/update-summarization-prompt.ts";

/** Everything but the summarizer has a default. */
export type GenerateSummaryOptions = Partial<RequestSummaryOptions> &
  Pick<RequestSummaryOptions, "summarizer">;

/** 0.8 of the default reserve: the rest of it is for the answer that follows the summary. */
const DEFAULT_MAX_OUTPUT = 13_107;

/**
 * Asks for a summary of a conversation's older part: with the summarization prompt, or, given a previous summary, with
 * the update prompt. The answer is valid, or this throws a `SummarizerError`.
 */
export function generateSummary(
  messages: readonly ContextMessage[],
  options: GenerateSummaryOptions,
): Promise<SummaryAnswer> {
  return requestSummary(messages, {
    purpose: "history",
    instructions: options.previousSummary ? UPDATE_SUMMARIZATION_PROMPT : SUMMARIZATION_PROMPT,
    sections: HISTORY_SECTIONS,
    maxOutputTokens: DEFAULT_MAX_OUTPUT,
    ...options,
  });
}
