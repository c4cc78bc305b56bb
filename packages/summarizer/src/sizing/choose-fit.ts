import type { Summarizer, SummaryRequest } from "../summarizer.ts";
import type { TokenEstimator } from "../tokens/token-estimator.ts";
import { splitRequest } from "./chunk-requests.ts";
import { type FullFitOptions, promptSize, roomFor } from "./fit-options.ts";
import { type FittedRequest, trimTask, wholeCandidates } from "./fit-request.ts";

/** Bytes that no token exceeds on average: a prompt with more than this for each token of room is not asked about. */
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
  for (const candidate of wholeCandidates(request, options)) {
    const asked = candidate.requests[0]!;
    const bound = promptSize(asked, options.estimator);
    if (bound <= room) return { ...candidate, options };
    if (bound > room * MOST_BYTES_PER_TOKEN) continue;
    const tokens = await summarizer.promptTokens?.(asked);
    if (tokens === undefined) continue;
    if (tokens <= room) return { ...candidate, options };
    estimator = scaled(options.estimator, (tokens / bound) * DENSITY_MARGIN);
  }
  const learnt = { ...options, estimator };
  return { ...splitRequest(trimTask(request, learnt).request, learnt), options: learnt };
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
