import type { FailedAttempt } from "@espalier/jsonl-stream";
import type { ContextMessage } from "@espalier/session-tree";
import {
  combineNotes,
  cutToTokens,
  type FitOptions,
  type FullFitOptions,
  fillFitOptions,
  promptSize,
  roomFor,
  roomForNote,
  sharedProgress,
  splitRequest,
} from "./chunks.ts";
import { extractiveSummarizer } from "./extractive/summarizer.ts";
import { awaitAnswer, raceAbort, withFallback, withFallbackFor, withRetry } from "./retry.ts";
import {
  attemptsOf,
  describeOmission,
  missingSections,
  type Summarizer,
  type SummaryAnswer,
  type SummaryError,
  type SummaryOmission,
  type SummaryRequest,
  toSummarizerError,
  validAnswer,
  withAttempts,
} from "./summarizer.ts";
import { addUsage, type TokenEstimator } from "./tokens.ts";
import { DEFAULT_LIMITS, joinTranscript, renderMessage, renderTranscript } from "./transcript.ts";

/** Request for a summary by any feature. */
export interface RequestSummaryOptions extends Omit<SummaryRequest, "messages" | "transcript"> {
  summarizer: Summarizer;
  /** Maximum number of simultaneous requests for parts of one summary. Default 2. A chain uses its own number. */
  concurrency?: number;
  /** Receives the request before it is sent, and may change it. */
  onRequest?: (request: SummaryRequest) => SummaryRequest | Promise<SummaryRequest>;
}

/** Requests a summary of messages of any size. Returns a valid answer, or throws a `SummaryError`. */
export async function requestSummary(
  messages: readonly ContextMessage[],
  { summarizer, onRequest, concurrency, ...fields }: RequestSummaryOptions,
): Promise<SummaryAnswer> {
  const draft: SummaryRequest = { ...fields, messages, transcript: renderTranscript(messages) };
  const request = onRequest ? await onRequest(draft) : draft;
  // A chain sizes requests for each of its members; for a single model they are sized here.
  const answer = Number.isFinite(summarizer.contextWindow)
    ? await summarizeFitting(summarizer, request, concurrency === undefined ? {} : { concurrency })
    : await summarizer.summarize(request);
  const text = answer.text.trim();
  const missing = missingSections(text, request.sections);
  return {
    ...validAnswer(summarizer.name, answer, request),
    text,
    ...(missing.length > 0 ? { missingSections: missing } : {}),
  };
}

/** Options of a chain. */
export interface ChainOptions {
  /**
   * True if `last` replaces any failed answer. Default false: `last` answers only a request that is too long for the
   * model.
   */
  fallback?: boolean;
  /** Last summarizer. Default: the extractive one, which needs no network and accepts any size. */
  last?: Summarizer;
  /** Adds retries to the summarizer. Default `withRetry`. */
  repeated?: (summarizer: Summarizer) => Summarizer;
  /** Sizing of the summarizer's requests. */
  fitting?: FittingOptions;
}

/** Returns whether a summarizer is the extractive one, by its name. */
export const isExtractive = ({ name }: Pick<Summarizer, "name">): boolean => name === EXTRACTIVE.name;
const EXTRACTIVE = extractiveSummarizer();

/**
 * Prepares a summarizer for any history: temporary failures are retried, its requests are sized, and another summarizer
 * is its fallback. The extractive summarizer is returned unchanged, because it needs none of these.
 */
export function chainOf(summarizer: Summarizer, options: ChainOptions = {}): Summarizer {
  if (isExtractive(summarizer)) return summarizer;
  const { fallback = false, last = EXTRACTIVE, repeated = withRetry, fitting = {} } = options;
  const sized = withFitting(repeated(summarizer), fitting);
  return fallback ? withFallback(sized, last) : withFallbackFor(["too-long"], sized, last);
}

const ABORT_GRACE_MS = 50;

/** Sizing of a request. Default: the window and the output limit of the summarizer. */
export interface FittingOptions extends Partial<FitOptions> {
  /**
   * Maximum number of simultaneous requests for parts. Default 2; use 1 for servers that process one request at a time.
   */
  concurrency?: number;
}

/** Answer to a sized request. `usage` is the sum over all successful calls. */
export interface FittedAnswer extends SummaryAnswer {
  omitted: SummaryOmission;
  calls: number;
}

/** Maximum number of times that the window is halved when it is smaller than announced. */
const SMALLER_WINDOWS = 4;

/**
 * Requests a summary of a history of any size. The request is sized first; if it does not fit, it is shortened, split
 * into parts whose notes are combined, or its oldest messages are dropped. If a provider still refuses a request as too
 * long, the request is sized again for half of the window, at most four times.
 *
 * Throws the summarizer's error, with the usage of all calls.
 */
export async function summarizeFitting(
  summarizer: Summarizer,
  request: SummaryRequest,
  options: FittingOptions = {},
): Promise<FittedAnswer> {
  const run = fittingRun(summarizer, request, options.concurrency ?? 2);
  const { contextWindow, maxOutputTokens } = summarizer;
  let full = fillFitOptions({ contextWindow, maxOutputTokens, ...options });
  for (let smaller = 0; ; smaller++) {
    let sent = Number.POSITIVE_INFINITY;
    try {
      const plan = await raceAbort(
        fitRequest(request, full, async (asked) => summarizer.promptTokens?.(asked)),
        request.signal,
      );
      sent = Math.max(...plan.requests.map((asked) => promptSize(asked, full.estimator)));
      return await run.carryOut(plan);
    } catch (thrown) {
      const error = toSummarizerError(thrown, summarizer.name, request.signal);
      if (sent === Number.POSITIVE_INFINITY) run.record(error);
      else if (error.code === "too-long" && smaller < SMALLER_WINDOWS) {
        full = { ...full, contextWindow: Math.floor(Math.min(full.contextWindow, sent) / 2) };
        continue;
      }
      throw run.fail(error);
    }
  }
}

/** Makes a summarizer that sizes every request to the window of the given one; its own `contextWindow` is Infinity. */
export function withFitting(summarizer: Summarizer, options: FittingOptions = {}): Summarizer {
  return {
    name: summarizer.name,
    ...(summarizer.model && { model: summarizer.model }),
    contextWindow: Number.POSITIVE_INFINITY,
    maxOutputTokens: summarizer.maxOutputTokens,
    summarize: (request) => summarizeFitting(summarizer, request, options),
  };
}

/** Calls for one summary, with their usage and failures so far. */
function fittingRun(summarizer: Summarizer, original: SummaryRequest, concurrency: number) {
  const { name } = summarizer;
  const withProgress = sharedProgress(original.onProgress);
  const attempts: FailedAttempt[] = [];
  let usage: SummaryAnswer["usage"];
  let calls = 0;

  const record = (error: SummaryError): SummaryError => {
    attempts.push(...attemptsOf(name, error));
    return error;
  };

  /** Makes one call, whose answer is valid. */
  async function ask(request: SummaryRequest): Promise<SummaryAnswer> {
    try {
      const answer = await awaitAnswer(summarizer, { ...request, ...withProgress() }, ABORT_GRACE_MS);
      validAnswer(name, answer, request);
      calls += answer.calls ?? 1;
      usage = addUsage(usage, answer.usage);
      attempts.push(...(answer.attempts ?? []));
      return answer;
    } catch (thrown) {
      throw record(toSummarizerError(thrown, name, request.signal));
    }
  }

  const askForNotes = (requests: readonly SummaryRequest[]): Promise<string[]> =>
    runPool(requests, concurrency, original.signal, async (request, signal) => {
      const answer = await ask({ ...request, signal });
      return answer.text.trim();
    });

  async function finish(request: SummaryRequest, omitted: SummaryOmission): Promise<FittedAnswer> {
    const answer = await ask(request);
    return { ...answer, ...(usage && { usage }), ...(attempts.length > 0 && { attempts }), omitted, calls };
  }

  return {
    record,

    async carryOut({ requests, omitted, options }: Awaited<ReturnType<typeof fitRequest>>) {
      if (omitted.chunks.length === 0) return finish(requests[0]!, omitted);
      let notes = await askForNotes(requests);
      const { request } = trimTask(original, options);
      let { summaryCharacters } = omitted;
      for (;;) {
        const { last, merges, cutCharacters } = combineNotes(request, notes, options);
        summaryCharacters += cutCharacters;
        if (last) return finish(last, { ...omitted, summaryCharacters });
        notes = await askForNotes(merges);
      }
    },

    /** Returns the error with the usage of all calls: failed ones, and finished ones whose notes are no longer needed. */
    fail(error: SummaryError): SummaryError {
      const message = `${calls} finished calls were discarded because another part failed.`;
      return withAttempts(error, [
        ...attempts,
        ...(usage ? [{ name, code: error.code, message, usage }] : []),
      ]);
    },
  };
}

/** More bytes than a token has on average in any text: a prompt with more bytes per token of room does not fit. */
const MOST_BYTES_PER_TOKEN = 8;

/** Factor for the difference in density between a part of a history and the whole, whose size was counted. */
const DENSITY_MARGIN = 1.25;

/** Requests that fit: one for the summary itself, or several for parts (`chunk`), oldest first, to be combined. */
export interface FittedRequest {
  requests: SummaryRequest[];
  omitted: SummaryOmission;
}

/**
 * Makes a request fit into a window, without sending it: unchanged; with shorter tool results; in parts; without the
 * oldest messages. Media are replaced by words in a transcript in any case. All omissions are listed. When an upper
 * bound does not decide, `promptTokens` returns the exact size: for prose a bound is up to four times too large. The
 * estimator in the result uses these counts.
 *
 * Throws `too-long` when the instructions alone leave no room.
 */
export async function fitRequest(
  request: SummaryRequest,
  given: FitOptions,
  promptTokens: Summarizer["promptTokens"] = async () => undefined,
): Promise<FittedRequest & { options: FullFitOptions }> {
  const options = fillFitOptions(given);
  const room = roomFor(request, options).prompt;
  let estimator = options.estimator;
  for (const { asked, omitted, isLast } of wholeCandidates(request, options)) {
    const bound = promptSize(asked, options.estimator);
    // The last candidate is always counted: the density of the text determines the number of parts.
    const isCounted = bound > room && (isLast || bound <= room * MOST_BYTES_PER_TOKEN);
    const tokens = isCounted ? await promptTokens(asked) : undefined;
    if ((tokens ?? bound) <= room) return { requests: [asked], omitted, options };
    if (tokens !== undefined) estimator = scaled(options.estimator, (tokens / bound) * DENSITY_MARGIN);
  }
  const learnt = { ...options, estimator };
  const { request: trimmed, characters } = trimTask(request, learnt);
  // Throws if there is no room for notes.
  roomForNote(trimmed, learnt);
  const { requests, omitted } = splitRequest(trimmed, learnt);
  return { requests, omitted: { ...omitted, summaryCharacters: characters }, options: learnt };
}

/** Returns an estimator with scaled numbers, never larger than the original ones. */
function scaled(estimator: TokenEstimator, factor: number): TokenEstimator {
  const by = Math.min(1, factor);
  return {
    ...estimator,
    text: (text) => Math.ceil(estimator.text(text) * by),
    estimate: (message) => Math.ceil(estimator.estimate(message) * by),
  };
}

/** Yields the whole request, with shorter and shorter tool results; the first one is the unchanged request. */
function* wholeCandidates(request: SummaryRequest, options: FullFitOptions) {
  const { request: trimmed, characters } = trimTask(request, options);
  const { output } = roomFor(request, options);
  for (const [step, limit] of options.toolResultLimits.entries()) {
    const limits = { ...DEFAULT_LIMITS, toolResultLimit: limit };
    const placed = request.messages.map((message, index) => ({
      index,
      message,
      ...renderMessage(message, limits),
    }));
    // The first step uses the caller's transcript unchanged: a hook may have edited it.
    const transcript = step === 0 ? request.transcript : joinTranscript(placed);
    yield {
      asked: { ...trimmed, transcript, maxOutputTokens: output },
      omitted: { ...describeOmission(placed, new Set(), limit), summaryCharacters: characters },
      isLast: step === options.toolResultLimits.length - 1,
    };
  }
}

/**
 * Cuts texts other than the transcript to their share: the previous summary to a quarter of the prompt, the user's
 * focus to an eighth. Longer texts are cut in the middle.
 */
function trimTask(request: SummaryRequest, options: FullFitOptions) {
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
  return { request: trimmed, characters };
}

/**
 * Runs `work` over all items, at most `concurrency` at a time, in order. When one fails, the others are aborted and
 * awaited, and the first failure is thrown.
 */
export async function runPool<T, R>(
  items: readonly T[],
  concurrency: number,
  parent: AbortSignal | undefined,
  work: (item: T, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length);
  const failure = new AbortController();
  const signal = parent ? AbortSignal.any([parent, failure.signal]) : failure.signal;
  const waiting = items.entries();
  const lane = async () => {
    for (const [index, item] of waiting) {
      if (failure.signal.aborted) return;
      results[index] = await work(item, signal);
    }
  };
  const lanes = Math.max(1, Math.min(Math.floor(concurrency), items.length));
  const stop = (error: unknown) => failure.abort(error);
  await Promise.all(Array.from({ length: lanes }, () => lane().catch(stop)));
  if (failure.signal.aborted) throw failure.signal.reason;
  return results;
}
