import type { Summarizer, SummaryRequest } from "../summarizer.ts";
import type { TokenEstimator } from "../tokens/token-estimator.ts";
import { type FullFitOptions, promptSize, roomFor } from "./fit-options.ts";
import { type FittedRequest, splitFitting, wholeCandidates } from "./fit-request.ts";

/** More bytes than a token has on average in any text: a prompt with more for each token of room does not fit. */
const MOST_BYTES_PER_TOKEN = 8;

/** Room for the difference between one part of a history and the whole whose size was counted. */
const DENSITY_MARGIN = 1.25;

/** Requests that fit, and the options they were judged by. */
export interface ChosenFit extends FittedRequest {
  options: FullFitOptions;
}

/**
 * What `fitRequest` does, and where a bound does not settle it, the summarizer is asked for the exact size: a bound is
 * up to four times too much for prose. The options returned judge sizes by what was learnt on the way.
 */
export async function chooseFit(
  summarizer: Summarizer,
  request: SummaryRequest,
  options: FullFitOptions,
): Promise<ChosenFit> {
  const room = roomFor(request, options).prompt;
  let estimator = options.estimator;
  let candidatesLeft = options.toolResultLimits.length;
  for (const candidate of wholeCandidates(request, options)) {
    candidatesLeft--;
    const asked = candidate.requests[0]!;
    const bound = promptSize(asked, options.estimator);
    if (bound <= room) return { ...candidate, options };
    // The last one is counted all the same: how dense the text is decides how many parts there will be.
    if (bound > room * MOST_BYTES_PER_TOKEN && candidatesLeft > 0) continue;
    const tokens = await summarizer.promptTokens?.(asked);
    if (tokens === undefined) continue;
    if (tokens <= room) return { ...candidate, options };
    estimator = scaled(options.estimator, (tokens / bound) * DENSITY_MARGIN);
  }
  const learnt = { ...options, estimator };
  return { ...splitFitting(request, learnt), options: learnt };
}

/** An estimator whose numbers are multiplied; never to more than they were. */
function scaled(estimator: TokenEstimator, factor: number): TokenEstimator {
  const by = Math.min(1, factor);
  return {
    ...estimator,
    text: (text) => Math.ceil(estimator.text(text) * by),
    estimate: (message) => Math.ceil(estimator.estimate(message) * by),
  };
}
