import {
  attemptsOf,
  type FailedAttempt,
  type Summarizer,
  SummarizerError,
  toSummarizerError,
  validateSummary,
  withAttempts,
  withSummarize,
} from "@espalier/summarizer";
import type { PolicyLog } from "./policy-log.ts";
import { type Sleep, sleepFor } from "./sleep.ts";

/** How often a summary is asked for, and who hears of it. */
export interface AskingOptions {
  /** Attempts in all. Default 3. */
  attempts?: number;
  /** Waits, and ends with the signal. */
  sleep?: Sleep;
  /** Where each failure is said. Default `console`. */
  log?: PolicyLog;
}

/** After the n-th failure one waits n times this long, in milliseconds (origins 003). */
const DELAY_MS = 1_000;

/**
 * A summarizer that asks again after every failure, whatever it was, an answer that must not be kept included; only an
 * abort ends it at once. Each failure is a warning. The error it gives up with has everything that was billed.
 */
export function askRepeatedly(summarizer: Summarizer, options: AskingOptions = {}): Summarizer {
  const { attempts = 3, sleep = sleepFor, log = console } = options;
  const { name } = summarizer;
  return withSummarize(summarizer, async (request) => {
    const failed: FailedAttempt[] = [];
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await summarizer.summarize(request);
        validateSummary(answer, request);
        return failed.length > 0 ? { ...answer, attempts: [...failed, ...(answer.attempts ?? [])] } : answer;
      } catch (thrown) {
        const error = asSummarizerError(thrown, name, request.signal);
        failed.push(...attemptsOf(name, error));
        if (error.code === "aborted") throw withAttempts(error, failed);
        log.warn(`Compact summary attempt ${attempt} failed`, { error });
        if (attempt >= attempts) throw withAttempts(error, failed);
      }
      try {
        await sleep(attempt * DELAY_MS, request.signal);
      } catch (cause) {
        throw withAttempts(new SummarizerError("aborted", "The summary was aborted.", { cause }), failed);
      }
    }
  });
}

/** A summarizer of somebody's own may fail in any way when it is aborted; what that was billed counts. */
function asSummarizerError(thrown: unknown, name: string, signal: AbortSignal | undefined): SummarizerError {
  const error = toSummarizerError(thrown, name, signal);
  if (!signal?.aborted || error.code === "aborted") return error;
  return new SummarizerError("aborted", "The summary was aborted.", { cause: error, usage: error.usage });
}
