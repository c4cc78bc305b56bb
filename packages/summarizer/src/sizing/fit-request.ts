import { DEFAULT_LIMITS, renderMessage } from "../rendered-message.ts";
import type { SummaryRequest } from "../summarizer.ts";
import { SummarizerError } from "../summarizer-error.ts";
import { joinTranscript } from "../transcript.ts";
import { splitRequest } from "./chunk-requests.ts";
import { roomForNote } from "./combine-requests.ts";
import { cutToTokens } from "./cut-to-tokens.ts";
import { type FitOptions, type FullFitOptions, fillFitOptions, promptSize, roomFor } from "./fit-options.ts";
import { describeOmission, type PlacedMessage, type SummaryOmission } from "./summary-omission.ts";

/** Requests that fit: one that asks for the summary itself, or parts (`chunk`), oldest first, to be combined. */
export interface FittedRequest {
  requests: SummaryRequest[];
  omitted: SummaryOmission;
}

/**
 * Makes a request fit into a window, without sending anything: as it is; with shorter tool results; in parts; with the
 * oldest messages left out. Media are words in a transcript already. What that cost is listed.
 *
 * Throws `too-long` where the instructions alone leave no room.
 */
export function fitRequest(request: SummaryRequest, options: FitOptions): FittedRequest {
  const full = fillFitOptions(options);
  const room = roomFor(request, full).prompt;
  for (const candidate of wholeCandidates(request, full)) {
    if (promptSize(candidate.requests[0]!, full.estimator) <= room) return candidate;
  }
  return splitFitting(request, full);
}

/** The request in parts, for which there is room, and for whose notes there is. */
export function splitFitting(request: SummaryRequest, options: FullFitOptions): FittedRequest {
  const { request: trimmed, characters } = trimTask(request, options);
  roomForNote(trimmed, options);
  const { requests, omitted } = splitRequest(trimmed, options);
  return { requests, omitted: { ...omitted, summaryCharacters: characters } };
}

/** The request whole, tool results shorter and shorter; the first one is the request as it was given. */
export function* wholeCandidates(request: SummaryRequest, options: FullFitOptions): Generator<FittedRequest> {
  const { request: trimmed, characters } = trimTask(request, options);
  const { output } = roomFor(request, options);
  for (const [step, limit] of options.toolResultLimits.entries()) {
    const placed = placeMessages(request, limit);
    // What the caller rendered stands as it is on the first step: a hook may have changed it.
    const transcript = step === 0 ? request.transcript : joinTranscript(placed);
    yield {
      requests: [{ ...trimmed, transcript, maxOutputTokens: output }],
      omitted: { ...describeOmission(placed, new Set(), limit), summaryCharacters: characters },
    };
  }
}

/** Every message with its place, rendered with its results cut to `limit`. */
function placeMessages({ messages }: SummaryRequest, limit: number): PlacedMessage[] {
  const limits = { ...DEFAULT_LIMITS, toolResultLimit: limit };
  return messages.map((message, index) => ({ index, message, ...renderMessage(message, limits) }));
}

/**
 * The texts beside the transcript within their share: the previous summary a quarter of the prompt, the user's wishes
 * an eighth. They are cut in the middle where they are larger.
 */
export function trimTask(
  request: SummaryRequest,
  options: FullFitOptions,
): { request: SummaryRequest; characters: number } {
  const { prompt } = roomFor(request, options);
  const trimmed = { ...request };
  let characters = 0;
  for (const [field, share] of [
    ["previousSummary", 4],
    ["customInstructions", 8],
  ] as const) {
    const text = request[field];
    if (!text) continue;
    const shown = cutToTokens(text, Math.floor(prompt / share), options.estimator);
    trimmed[field] = shown.text;
    characters += shown.leftOut;
  }
  const bare = promptSize({ ...trimmed, transcript: "" }, options.estimator);
  if (bare > prompt) {
    throw new SummarizerError(
      "too-long",
      `The instructions take up to ${bare} tokens and the window leaves ${Math.max(0, Math.floor(prompt))} for the whole prompt; take a summarizer with a larger window than ${options.contextWindow}.`,
    );
  }
  return { request: trimmed, characters };
}
