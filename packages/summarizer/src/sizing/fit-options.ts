import type { SummaryRequest } from "../summarizer.ts";
import { summaryPrompt } from "../summary-prompt.ts";
import type { TokenEstimator } from "../tokens/token-estimator.ts";
import { upperBoundEstimator } from "../tokens/upper-bound-estimator.ts";

/** Into what a request must fit, and how it may be made smaller. */
export interface FitOptions {
  /** Tokens of one request and its answer together. */
  contextWindow: number;
  /** The most tokens one answer can have; the request's own limit where absent. */
  maxOutputTokens?: number;
  /** How the size of a prompt is judged; {@link upperBoundEstimator} by default, so that what fits here does fit. */
  estimator?: TokenEstimator;
  /** Tokens kept free for what frames a prompt. 64 by default. */
  reserveTokens?: number;
  /** To how many characters tool results are cut, one after the other, before a request is split. */
  toolResultLimits?: readonly number[];
  /** The most parts; the oldest messages beyond them are dropped. 24 by default: what a person may wait for. */
  maxChunks?: number;
}

/** Sizes in tokens that follow from the options and one request. */
export interface Room {
  /** For the answer. */
  output: number;
  /** For the prompt. */
  prompt: number;
}

/** Tokens for roles, separators and what else a provider puts around texts. */
export const DEFAULT_RESERVE = 64;

/** {@link FitOptions} with every default filled in. */
export type FullFitOptions = Required<FitOptions>;

/** Characters that are shown of a tool result, from the first try to the last. */
export const DEFAULT_TOOL_RESULT_LIMITS = [2_000, 500, 120] as const;

export function fillFitOptions(options: FitOptions): FullFitOptions {
  return {
    maxOutputTokens: Number.POSITIVE_INFINITY,
    estimator: upperBoundEstimator,
    reserveTokens: DEFAULT_RESERVE,
    toolResultLimits: DEFAULT_TOOL_RESULT_LIMITS,
    maxChunks: 24,
    ...options,
  };
}

/** How a window is shared: an answer has at most a quarter of it, so that a small model still sees something. */
export function roomFor(request: SummaryRequest, options: FullFitOptions): Room {
  const { contextWindow, maxOutputTokens, reserveTokens } = options;
  const output = Math.max(
    1,
    Math.floor(Math.min(request.maxOutputTokens, maxOutputTokens, contextWindow / 4)),
  );
  return { output, prompt: contextWindow - output - reserveTokens };
}

/** The size of a request's prompt, as its estimator sees it. */
export function promptSize(request: SummaryRequest, estimator: TokenEstimator): number {
  const { system, user } = summaryPrompt(request);
  return estimator.overhead + estimator.text(system) + estimator.text(user);
}
