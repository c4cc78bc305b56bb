import { linkedAbort, raceAbort, sleep } from "./abort.ts";
import { awaitAnswer, validAnswer, withSummarize } from "./await-answer.ts";
import { attemptsOf, toSummarizerError, withAttempts } from "./failed-attempt.ts";
import { stricterRequest } from "./stricter-request.ts";
import type { Summarizer, SummaryAnswer, SummaryRequest } from "./summarizer.ts";
import { type FailedAttempt, isInvalidAnswer, isPassing, SummarizerError } from "./summarizer-error.ts";

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
  onRetry?: (event: { attempt: number; delayMs: number; error: SummarizerError }) => void;
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
    let error: SummarizerError;
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
    const usage = thrown instanceof SummarizerError ? thrown.usage : undefined;
    throw new SummarizerError("timeout", `No summary after ${timeoutMs} ms; allow more time.`, {
      cause: thrown,
      usage,
    });
  } finally {
    clearTimeout(timer);
    dispose();
  }
}
