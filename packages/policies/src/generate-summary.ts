import type { ContextMessage } from "@espalier/session-tree";
import { renderTranscript, type Summarizer, withFitting } from "@espalier/summarizer";
import { type AskingOptions, askRepeatedly } from "./ask-repeatedly.ts";
import type { CompactOptions } from "./compact-result.ts";
import { DEFAULT_OFFLOAD_SETTINGS, OUTPUT_MARGIN } from "./offload-settings.ts";
import {
  COMPACT_SUMMARY_SECTIONS,
  COMPACT_SUMMARY_TASK,
  compactSummaryPrompt,
} from "./prompts/compact-summary.ts";

/** Who summarises, to how many tokens, and how often it is asked again; defaults as in `CompactOptions`. */
export interface GenerateSummaryOptions
  extends Pick<CompactOptions, "targetTokens" | "retryCount">,
    Pick<AskingOptions, "sleep" | "log"> {
  summarizer: Summarizer;
  /** An abort ends the request and every wait between attempts; it is thrown as `aborted`. */
  signal?: AbortSignal;
}

/** Results are shown whole where there is room: they were read back for that. */
export const WHOLE_RESULTS_FIRST: readonly number[] = [Number.POSITIVE_INFINITY, 2_000, 500, 120];

/**
 * The summary of a conversation under the eight headings. One longer than its target is taken as it is; one cut off at
 * 1.2 times the target is a failed attempt, like any other failure.
 *
 * @throws SummarizerError after `retryCount` attempts
 */
export async function generateSummary(
  messages: readonly ContextMessage[],
  options: GenerateSummaryOptions,
): Promise<string> {
  const {
    summarizer,
    targetTokens = DEFAULT_OFFLOAD_SETTINGS.targetTokens,
    retryCount = DEFAULT_OFFLOAD_SETTINGS.retryCount,
    sleep,
    log,
    signal,
  } = options;
  const asking = {
    attempts: retryCount,
    ...(sleep ? { sleep } : {}),
    ...(log ? { log } : {}),
  };
  const patient = askRepeatedly(summarizer, asking);
  const sized = withFitting(patient, { toolResultLimits: WHOLE_RESULTS_FIRST });
  const answer = await sized.summarize({
    purpose: "history",
    systemPrompt: compactSummaryPrompt(targetTokens),
    instructions: COMPACT_SUMMARY_TASK,
    sections: COMPACT_SUMMARY_SECTIONS,
    messages,
    transcript: renderTranscript(messages, { toolResultLimit: WHOLE_RESULTS_FIRST[0]! }),
    maxOutputTokens: Math.floor(targetTokens * OUTPUT_MARGIN),
    ...(signal ? { signal } : {}),
  });
  return answer.text.trim();
}
