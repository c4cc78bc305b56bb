import { DEFAULT_RESERVE, promptSize } from "../sizing/fit-options.ts";
import type { SummaryRequest } from "../summarizer.ts";
import { upperBoundEstimator } from "../tokens/upper-bound-estimator.ts";
import {
  canExtend,
  extendedBody,
  extendingInstruction,
  holdsMessages,
  type LastRequest,
  type MessagesBody,
  standaloneBody,
  thinkingBudget,
} from "./anthropic-request.ts";
import { clampOutput } from "./clamp-output.ts";

/** What a request is planned by. Sizes in tokens. */
export interface PlanOptions {
  model: string;
  contextWindow: number;
  maxOutputTokens: number;
  /** On top of the answer in `max_tokens`. */
  thinkingTokens: number;
  ask: "auto" | "extend" | "standalone";
  lastRequest?: () => LastRequest | undefined;
  parameters: Readonly<Record<string, unknown>>;
}

/** A request ready to send. */
export interface PlannedRequest {
  body: MessagesBody;
  /** Tokens by which the prompt, with fixed thinking and the least of an answer, may exceed the window; 0 when it fits. */
  shortBy: number;
  /** The size of the prompt where the last request is extended, from the provider's own count of that; else undefined. */
  extendsTokens: number | undefined;
}

/** An answer shorter than this is no summary: a window that leaves less is too small (unless less was asked for). */
const LEAST_ANSWER = 256;

/** Where the last request is extended a good summary must fit, for there is another way to ask. */
const LEAST_EXTENDING_ANSWER = 4_096;

/** Purposes whose messages stand in the session's last request. */
const EXTENDING = new Set(["history", "turn-prefix", "branch"]);

/**
 * Chooses how to ask and how long the answer may be. `promptTokens` is the size of a standalone prompt where it was
 * counted; otherwise its upper bound is taken, the one that requests are fitted by.
 */
export function planAnthropicRequest(
  request: SummaryRequest,
  options: PlanOptions,
  promptTokens?: number,
): PlannedRequest {
  const last =
    options.ask === "standalone" || !EXTENDING.has(request.purpose) ? undefined : options.lastRequest?.();
  const extended = last && planExtended(request, last, options);
  if (extended && (options.ask === "extend" || extended.shortBy === 0)) return extended;
  const body = { ...standaloneBody(request, options.model, 1), ...options.parameters };
  const size = (promptTokens ?? promptSize(request, upperBoundEstimator)) + DEFAULT_RESERVE;
  const thinking = options.thinkingTokens;
  return { ...withOutput(request, body, size, thinking, LEAST_ANSWER, options), extendsTokens: undefined };
}

function planExtended(
  request: SummaryRequest,
  last: LastRequest,
  options: PlanOptions,
): PlannedRequest | undefined {
  if (!canExtend(last, options.model) || !holdsMessages(last, request)) return undefined;
  const body = extendedBody(request, last, options.model, 1);
  const known = last.inputTokens ?? upperBoundEstimator.text(JSON.stringify(last.body));
  const size = known + upperBoundEstimator.text(extendingInstruction(request)) + DEFAULT_RESERVE;
  const thinking = thinkingBudget(last.body) || options.thinkingTokens;
  return {
    ...withOutput(request, body, size, thinking, LEAST_EXTENDING_ANSWER, options),
    extendsTokens: size,
  };
}

function withOutput(
  request: SummaryRequest,
  body: MessagesBody,
  promptTokens: number,
  thinkingTokens: number,
  leastAnswer: number,
  options: PlanOptions,
): Pick<PlannedRequest, "body" | "shortBy"> {
  const left = options.contextWindow - promptTokens;
  const maxTokens = clampOutput(request.maxOutputTokens + thinkingTokens, options.maxOutputTokens, left);
  // Thinking that the body fixes has to find room; what a model may think by itself takes what there is.
  const shortest = Math.min(request.maxOutputTokens, leastAnswer) + thinkingBudget(body);
  const least = Math.min(shortest, options.maxOutputTokens);
  return {
    body: { ...body, max_tokens: Math.max(1, maxTokens) },
    shortBy: Math.max(0, Math.ceil(least - left)),
  };
}
