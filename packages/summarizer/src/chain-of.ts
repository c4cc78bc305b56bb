import { extractiveSummarizer } from "./extractive/extractive-summarizer.ts";
import { type FittingOptions, withFitting } from "./sizing/summarize-fitting.ts";
import type { Summarizer } from "./summarizer.ts";
import { withFallback, withFallbackFor } from "./with-fallback.ts";
import { withRetry } from "./with-retry.ts";

/** How a chain is made. */
export interface ChainOptions {
  /** Whether `last` steps in whatever happens. Default false: for what is too long for the model alone. */
  fallback?: boolean;
  /** Who steps in. Default: the extractive summarizer, which needs no network and takes any size. */
  last?: Summarizer;
  /** How the summarizer is asked again. Default `withRetry`. */
  repeated?: (summarizer: Summarizer) => Summarizer;
  /** How its requests are sized. */
  fitting?: FittingOptions;
}

/** The extractive summarizer, by the name that it gives itself. */
export const isExtractive = ({ name }: Pick<Summarizer, "name">): boolean => name === EXTRACTIVE.name;

const EXTRACTIVE = extractiveSummarizer();

/**
 * A summarizer made ready for any history: asked again when trouble passes, its requests sized to fit, another one
 * behind it. The extractive one needs nothing of that, and is answered as it is.
 */
export function chainOf(summarizer: Summarizer, options: ChainOptions = {}): Summarizer {
  if (isExtractive(summarizer)) return summarizer;
  const { fallback = false, last = EXTRACTIVE, repeated = withRetry, fitting = {} } = options;
  const sized = withFitting(repeated(summarizer), fitting);
  return fallback ? withFallback(sized, last) : withFallbackFor(["too-long"], sized, last);
}
