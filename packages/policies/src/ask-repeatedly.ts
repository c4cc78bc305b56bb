import {
  addUsage,
  type FailedAttempt,
  type Summarizer,
  SummarizerError,
  validateSummary,
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
  /** False: an answer without the sections that were asked for will do. Default true. */
  needsSections?: boolean;
}

/** After the n-th failure one waits n times this long, in milliseconds (origins 003). */
const DELAY_MS = 1_000;

/**
 * A summarizer that asks again after every failure, whatever it was, an answer that must not be kept included; only an
 * abort ends it at once. Each failure is a warning. The error it gives up with has everything that was billed.
 */
export function askRepeatedly(summarizer: Summarizer, options: AskingOptions = {}): Summarizer {
  const { attempts = 3, sleep = sleepFor, log = console, needsSections = true } = options;
  const { name } = summarizer;
  return withSummarize(summarizer, async (request) => {
    const failed: FailedAttempt[] = [];
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await summarizer.summarize(request);
        validateSummary(answer, needsSections ? request : { sections: [] });
        return failed.length > 0 ? { ...answer, attempts: [...failed, ...(answer.attempts ?? [])] } : answer;
      } catch (thrown) {
        const error = asSummarizerError(thrown, name, request.signal);
        failed.push(...attemptsOf(error, name));
        if (error.code === "aborted") throw withBill(error, failed);
        log.warn(`Compact summary attempt ${attempt} failed`, { error });
        if (attempt >= attempts) throw withBill(error, failed);
      }
      try {
        await sleep(attempt * DELAY_MS, request.signal);
      } catch (cause) {
        throw withBill(new SummarizerError("aborted", "The summary was aborted.", { cause }), failed);
      }
    }
  });
}

function asSummarizerError(thrown: unknown, name: string, signal: AbortSignal | undefined): SummarizerError {
  if (signal?.aborted && !(thrown instanceof SummarizerError && thrown.code === "aborted")) {
    const usage = thrown instanceof SummarizerError ? thrown.usage : undefined;
    return new SummarizerError("aborted", "The summary was aborted.", { cause: thrown, usage });
  }
  if (thrown instanceof SummarizerError) return thrown;
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return new SummarizerError("failed", `The summarizer "${name}" failed: ${reason}`, { cause: thrown });
}

function attemptsOf(error: SummarizerError, name: string): readonly FailedAttempt[] {
  if (error.attempts.length > 0) return error.attempts;
  const { code, message, usage } = error;
  return [{ name, code, message, ...(usage ? { usage } : {}) }];
}

function withBill(error: SummarizerError, attempts: readonly FailedAttempt[]): SummarizerError {
  let usage: SummarizerError["usage"];
  for (const attempt of attempts) usage = addUsage(usage, attempt.usage);
  return new SummarizerError(error.code, error.message, { cause: error.cause ?? error, attempts, usage });
}
