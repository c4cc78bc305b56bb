import { withSummarize } from "./await-answer.ts";
import type { Summarizer } from "./summarizer.ts";

/** The same summarizer with requests that are sized for this window, in tokens, where its own is larger. */
export function withWindow(summarizer: Summarizer, contextWindow: number): Summarizer {
  if (summarizer.contextWindow <= contextWindow) return summarizer;
  return { ...withSummarize(summarizer, (request) => summarizer.summarize(request)), contextWindow };
}
