import { generateSummary as askForSummary } from "@espalier/compaction";
import type { ContextMessage } from "@espalier/session-tree";
import { type Summarizer, withFitting, withRetry } from "@espalier/summarizer";

/** Who summarises, and what it may cost. */
export interface SummaryGeneratorOptions {
  summarizer: Summarizer;
  /** The most tokens of the summary. */
  maxOutputTokens?: number;
  /** The summary that this one brings up to date. */
  previousSummary?: string;
  /** Ends the request. Default: nothing does. */
  signal?: AbortSignal;
}

/** Creates the summary of what was pruned (origins 004). */
export const SummaryGenerator = {
  /** @throws SummarizerError */
  async generate(messages: readonly ContextMessage[], options: SummaryGeneratorOptions): Promise<string> {
    const { summarizer, ...asked } = options;
    const patient = withFitting(withRetry(summarizer));
    const answer = await askForSummary(messages, { ...asked, summarizer: patient, sections: [] });
    return answer.text;
  },
} as const;
