import type { EspalierErrorOptions, FailedAttempt, SummaryErrorCode } from "@espalier/jsonl-stream";
import { EspalierError } from "@espalier/jsonl-stream";
import type { Usage } from "@espalier/session-tree";
import type { SummaryError } from "./summarizer.ts";
import {
  addUsage,
  isInvalidAnswer,
  isPassing,
  isSummaryCode,
  isSummaryError,
  type Summarizer,
  type SummaryAnswer,
  type SummaryRequest,
  summaryError,
} from "./summarizer.ts";
import { stricterRequest, validateSummary } from "./validate-summary.ts";

const ABORT_GRACE_MS = 25;

/** About 25 days. Timers take 32 bits; a larger number would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** When a failed request is sent again. */
export interface RetryOptions {
  /** Attempts in all, where trouble passes by itself: 3. */
  attempts?: number;
  /** Milliseconds to wait after the n-th failure (from 1); {@link exponentialDelay} by default. */
  delayMs?: (failure: number) => number;
  /** The longest wait that a provider may ask for; beyond it the error is thrown at once. 60,000. */
  longestRetryAfterMs?: number;
  /** Milliseconds after which one attempt counts as failed: 600,000, as in the Anthropic SDK. Infinity: never. */
  timeoutMs?: number;
  /** Whether an invalid answer is asked for once more, with a stricter sentence. True by default. */
  stricter?: boolean;
  /** Waits; tests give their own. */
  sleep?: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
  /** Told before every wait. */
  onRetry?: (event: { attempt: number; delayMs: number; error: SummaryError }) => void;
}

/**
 * Doubles from one second up to 30, of which a random half is taken off, so that clients that failed together do not
 * come back together.
 */
export function exponentialDelay(failure: number, random: () => number = Math.random): number {
  const full = Math.min(30_000, 1_000 * 2 ** (failure - 1));
  return Math.round(full * (1 - random() / 2));
}

/**
 * A summarizer that tries again: after trouble that passes (`overloaded`, `rate-limited`, `connection`, `timeout`), with
 * waits in between, and once, more strictly, after an answer that must not be kept. What it answers is valid. The error
 * it gives up with is the last one, with everything that was billed.
 */
export function withRetry(summarizer: Summarizer, options: RetryOptions = {}): Summarizer {
  return withSummarize(summarizer, (request) => retry(summarizer, request, options));
}

async function retry(
  summarizer: Summarizer,
  request: SummaryRequest,
  options: RetryOptions,
): Promise<SummaryAnswer> {
  const { attempts = 3, stricter = true, longestRetryAfterMs = 60_000 } = options;
  const failed: FailedAttempt[] = [];
  let asked = request;
  let passing = 0;
  for (;;) {
    let error: SummaryError;
    try {
      const timeoutMs = options.timeoutMs ?? 600_000;
      const answer = validAnswer(summarizer.name, await attempt(summarizer, asked, timeoutMs), request);
      const before = [...failed, ...(answer.attempts ?? [])];
      return before.length > 0 ? { ...answer, attempts: before } : answer;
    } catch (thrown) {
      error = toSummarizerError(thrown, summarizer.name, request.signal);
    }
    failed.push(...attemptsOf(summarizer.name, error));
    const giveUp = () => withAttempts(error, failed);
    if (isInvalidAnswer(error.code) && stricter && asked === request) {
      asked = stricterRequest(request, error.code);
      continue;
    }
    if (!isPassing(error.code) || ++passing >= attempts) throw giveUp();
    if ((error.retryAfterMs ?? 0) > longestRetryAfterMs) throw giveUp();
    const delayMs = Math.max((options.delayMs ?? exponentialDelay)(passing), error.retryAfterMs ?? 0);
    options.onRetry?.({ attempt: passing, delayMs, error });
    try {
      await raceAbort((options.sleep ?? sleep)(delayMs, request.signal), request.signal);
    } catch (thrown) {
      throw withAttempts(toSummarizerError(thrown, summarizer.name, request.signal), failed);
    }
  }
}

/** One request, ended by the caller's signal or by time, whether the summarizer listens to signals or not. */
async function attempt(
  summarizer: Summarizer,
  request: SummaryRequest,
  timeoutMs: number,
): Promise<SummaryAnswer> {
  const { signal, abort, dispose } = linkedAbort(request.signal);
  let isLate = false;
  const giveUp = () => {
    isLate = true;
    abort();
  };
  const timer = timeoutMs <= LONGEST_TIMER_MS ? setTimeout(giveUp, timeoutMs) : undefined;
  try {
    return await awaitAnswer(summarizer, { ...request, signal }, ABORT_GRACE_MS);
  } catch (thrown) {
    if (!isLate) throw thrown;
    const usage = isSummaryError(thrown) ? thrown.usage : undefined;
    throw summaryError("timeout", `No summary after ${timeoutMs} ms; allow more time.`, {
      cause: thrown,
      usage,
    });
  } finally {
    clearTimeout(timer);
    dispose();
  }
}

const FALLBACK_GRACE_MS = 100;

/**
 * A chain: the first summarizer whose answer is valid. `source` of the answer says which it was, `attempts` what the
 * ones before it failed with and cost. An abort ends the chain at once. When all fail, the last error is thrown with
 * every attempt before it.
 */
export function withFallback(first: Summarizer, ...rest: Summarizer[]): Summarizer {
  return chain([first, ...rest], () => true);
}

/** {@link withFallback} for these errors alone; any other one is thrown as it is. */
export function withFallbackFor(
  codes: readonly SummaryErrorCode[],
  first: Summarizer,
  ...rest: Summarizer[]
): Summarizer {
  return chain([first, ...rest], (code) => codes.includes(code));
}

function chain(
  summarizers: readonly [Summarizer, ...Summarizer[]],
  goesOn: (code: SummaryErrorCode) => boolean,
): Summarizer {
  return withSummarize(summarizers[0], (request) => askInOrder(summarizers, goesOn, request));
}

async function askInOrder(
  summarizers: readonly [Summarizer, ...Summarizer[]],
  goesOn: (code: SummaryErrorCode) => boolean,
  request: SummaryRequest,
): Promise<SummaryAnswer> {
  const failed: FailedAttempt[] = [];
  let last: SummaryError | undefined;
  for (const summarizer of summarizers) {
    try {
      const answer = validAnswer(
        summarizer.name,
        await awaitAnswer(summarizer, request, FALLBACK_GRACE_MS),
        request,
      );
      const attempts = [...failed, ...(answer.attempts ?? [])];
      return {
        ...answer,
        source: answer.source ?? summarizer.name,
        ...(attempts.length > 0 && { attempts }),
      };
    } catch (thrown) {
      last = toSummarizerError(thrown, summarizer.name, request.signal);
      failed.push(...attemptsOf(summarizer.name, last));
      if (last.code === "aborted" || !goesOn(last.code)) break;
    }
  }
  throw withAttempts(last!, failed);
}

/** The same summarizer with requests that are sized for this window, in tokens, where its own is larger. */
export function withWindow(summarizer: Summarizer, contextWindow: number): Summarizer {
  if (summarizer.contextWindow <= contextWindow) return summarizer;
  return { ...withSummarize(summarizer, (request) => summarizer.summarize(request)), contextWindow };
}

/** Whatever was thrown as an error of this package; `aborted` when the signal says so. */
export function toSummarizerError(thrown: unknown, name: string, signal?: AbortSignal): SummaryError {
  if (isSummaryError(thrown)) return thrown;
  if (thrown instanceof EspalierError && isSummaryCode(thrown.code)) {
    const { code, message, usage, retryAfterMs } = thrown;
    return summaryError(code, message, { cause: thrown.cause, usage, retryAfterMs });
  }
  if (signal?.aborted) return abortError(signal, { cause: thrown });
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return summaryError("failed", `The summarizer "${name}" failed: ${reason}`, { cause: thrown });
}

/** The calls behind an error: those it lists, else itself as one. */
export function attemptsOf(name: string, error: SummaryError): readonly FailedAttempt[] {
  if (error.attempts.length > 0) return error.attempts;
  const { code, message, usage } = error;
  return [{ name, code, message, ...(usage && { usage }) }];
}

/** The error again, with every failed call before it and the sum of what they were billed. */
export function withAttempts(error: SummaryError, attempts: readonly FailedAttempt[]): SummaryError {
  let usage: Usage | undefined;
  for (const attempt of attempts) usage = addUsage(usage, attempt.usage);
  const { code, message, cause, retryAfterMs } = error;
  return summaryError(code, message, { cause: cause ?? error, attempts, usage, retryAfterMs });
}

/**
 * Asks, and ends with `aborted` soon after the request's signal fires, whether the summarizer listens to it or not.
 * One that does listen has `graceMs` to say what was billed; whatever comes later is nobody's business any more.
 * Wrappers further out grant more, so that the innermost one reports first.
 */
export function awaitAnswer(
  summarizer: Summarizer,
  request: SummaryRequest,
  graceMs: number,
): Promise<SummaryAnswer> {
  const { signal } = request;
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onAbort = () => {
      timer = setTimeout(() => settle(() => reject(abortError(signal))), graceMs);
    };
    const settle = (end: () => void) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      end();
    };
    if (signal?.aborted) return reject(abortError(signal));
    signal?.addEventListener("abort", onAbort, { once: true });
    // Inside a promise, one that throws at once and one that rejects are the same.
    new Promise<SummaryAnswer>((answered) => answered(summarizer.summarize(request))).then(
      (answer) =>
        settle(() => (signal?.aborted ? reject(unwanted(answer, summarizer, signal)) : resolve(answer))),
      (thrown: unknown) => settle(() => reject(failure(thrown, summarizer, signal))),
    );
  });
}

/** The answer, if it may become a summary; else an error with all that it and what came before it was billed. */
export function validAnswer(
  name: string,
  answer: SummaryAnswer,
  request: Pick<SummaryRequest, "sections">,
): SummaryAnswer {
  try {
    validateSummary(answer, request);
    return answer;
  } catch (thrown) {
    const error = toSummarizerError(thrown, name);
    if (!answer.attempts?.length) throw error;
    throw withAttempts(error, [...answer.attempts, ...attemptsOf(name, error)]);
  }
}

/** An answer that came after the abort: only its bill counts. */
function unwanted(answer: SummaryAnswer, { name }: Summarizer, signal: AbortSignal): SummaryError {
  const error = abortError(signal, { usage: answer.usage });
  return answer.attempts?.length
    ? withAttempts(error, [...answer.attempts, ...attemptsOf(name, error)])
    : error;
}

function failure(thrown: unknown, { name }: Summarizer, signal: AbortSignal | undefined): SummaryError {
  const error = toSummarizerError(thrown, name, signal);
  if (!signal?.aborted || error.code === "aborted") return error;
  const { usage, attempts } = error;
  return abortError(signal, { cause: error, usage, attempts });
}

/** The same summarizer with another way to answer. */
export function withSummarize(
  summarizer: Summarizer,
  summarize: (request: SummaryRequest) => Promise<SummaryAnswer>,
): Summarizer {
  const { name, model, contextWindow, maxOutputTokens } = summarizer;
  const same: Summarizer = { name, ...(model && { model }), contextWindow, maxOutputTokens, summarize };
  if (summarizer.promptTokens) same.promptTokens = (request) => summarizer.promptTokens!(request);
  return same;
}

/** What is thrown when the caller's signal fires. */
const abortError = (signal: AbortSignal | undefined, options: EspalierErrorOptions = {}) =>
  summaryError("aborted", "The summary was aborted.", { cause: signal?.reason, ...options });

/** Throws `aborted` when the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(signal);
}

/**
 * The outcome of `work`, or `aborted` as soon as the signal fires, whether the work listens to it or not. What
 * the work does after that is nobody's business any more: a late rejection is not reported.
 */
export function raceAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const stop = () => reject(abortError(signal));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
    const settle = () => signal.removeEventListener("abort", stop);
    work.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error: unknown) => {
        settle();
        reject(error);
      },
    );
  });
}

/** A signal of its own that fires with `parent`; `dispose` lets go of the parent. */
export function linkedAbort(parent: AbortSignal | undefined): {
  signal: AbortSignal;
  abort: (reason?: unknown) => void;
  dispose: () => void;
} {
  const controller = new AbortController();
  const follow = () => controller.abort(parent?.reason);
  if (parent?.aborted) follow();
  else parent?.addEventListener("abort", follow, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    dispose: () => parent?.removeEventListener("abort", follow),
  };
}

/** Waits; ends at once with `aborted` when the signal fires. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  return raceAbort(wait, signal).finally(() => clearTimeout(timer));
}
