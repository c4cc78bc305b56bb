import { raceAbort } from "../abort.ts";
import { awaitAnswer, validAnswer } from "../await-answer.ts";
import { attemptsOf, toSummarizerError, withAttempts } from "../failed-attempt.ts";
import type { Summarizer, SummaryAnswer, SummaryRequest } from "../summarizer.ts";
import type { FailedAttempt, SummarizerError } from "../summarizer-error.ts";
import { addUsage } from "../usage.ts";
import { type ChosenFit, chooseFit } from "./choose-fit.ts";
import { combineNotes } from "./combine-requests.ts";
import { type FitOptions, fillFitOptions, promptSize } from "./fit-options.ts";
import { trimTask } from "./fit-request.ts";
import { runPool } from "./run-pool.ts";
import { type SharedProgress, sharedProgress } from "./shared-progress.ts";
import type { SummaryOmission } from "./summary-omission.ts";

const ABORT_GRACE_MS = 50;

/** How a request is made to fit; the window and the output limit are the summarizer's unless given. */
export interface FittingOptions extends Partial<FitOptions> {
  /** Parts asked about at the same time: 2; 1 for servers that take one request at a time. */
  concurrency?: number;
}

/** An answer to a request that was made to fit. `usage` is the sum over all calls that answered. */
export interface FittedAnswer extends SummaryAnswer {
  omitted: SummaryOmission;
  calls: number;
}

/** How often a window that turns out smaller than announced is taken for less. */
const SMALLER_WINDOWS = 4;

/**
 * Asks for a summary of any history, whatever its size: the request is sized first and, where it does not fit,
 * shortened, split into parts whose notes are combined, or rid of its oldest messages. A provider that calls a request
 * too long although it should fit is believed, and asked again as if its window were smaller.
 *
 * Throws what the summarizer throws, with everything that was billed until then.
 */
export async function summarizeFitting(
  summarizer: Summarizer,
  request: SummaryRequest,
  options: FittingOptions = {},
): Promise<FittedAnswer> {
  const run = new FittingRun(summarizer, request, options.concurrency ?? 2);
  const { contextWindow, maxOutputTokens } = summarizer;
  let full = fillFitOptions({ contextWindow, maxOutputTokens, ...options });
  for (let smaller = 0; ; smaller++) {
    let sent = Number.POSITIVE_INFINITY;
    try {
      const plan = await raceAbort(chooseFit(summarizer, request, full), request.signal);
      sent = Math.max(...plan.requests.map((asked) => promptSize(asked, full.estimator)));
      return await run.carryOut(plan);
    } catch (thrown) {
      const error = toSummarizerError(thrown, summarizer.name, request.signal);
      run.record(error);
      const isRefusedSize = error.code === "too-long" && sent < Number.POSITIVE_INFINITY;
      if (!isRefusedSize || smaller === SMALLER_WINDOWS) throw run.fail(error);
      full = { ...full, contextWindow: Math.floor(Math.min(full.contextWindow, sent) / 2) };
    }
  }
}

/** A summarizer whose requests always fit; as `contextWindow` it has no limit. */
export function withFitting(summarizer: Summarizer, options: FittingOptions = {}): Summarizer {
  return {
    name: summarizer.name,
    ...(summarizer.model && { model: summarizer.model }),
    contextWindow: Number.POSITIVE_INFINITY,
    maxOutputTokens: summarizer.maxOutputTokens,
    summarize: (request) => summarizeFitting(summarizer, request, options),
  };
}

/** One summary in the making: what was asked, answered and billed so far. */
class FittingRun {
  readonly #attempts: FailedAttempt[] = [];
  readonly #recorded = new WeakSet<SummarizerError>();
  readonly #summarizer: Summarizer;
  readonly #request: SummaryRequest;
  readonly #concurrency: number;
  readonly #progress: SharedProgress;
  #usage: SummaryAnswer["usage"];
  #calls = 0;

  constructor(summarizer: Summarizer, request: SummaryRequest, concurrency: number) {
    this.#summarizer = summarizer;
    this.#request = request;
    this.#concurrency = concurrency;
    this.#progress = sharedProgress(request.onProgress);
  }

  async carryOut({ requests, omitted, options }: ChosenFit): Promise<FittedAnswer> {
    if (omitted.chunks.length === 0) return this.#finish(await this.#ask(requests[0]!), omitted);
    let notes = await this.#askForNotes(requests);
    const { request } = trimTask(this.#request, options);
    let { summaryCharacters } = omitted;
    for (;;) {
      const step = combineNotes(request, notes, options);
      summaryCharacters += step.cutCharacters;
      if (step.isLast) {
        return this.#finish(await this.#ask(step.requests[0]!), { ...omitted, summaryCharacters });
      }
      notes = [...(await this.#askForNotes(step.requests)), ...step.carried];
    }
  }

  /** The error with all that was billed: failed calls, and finished ones whose notes are now worth nothing. */
  fail(error: SummarizerError): SummarizerError {
    const usage = this.#usage;
    const discarded = `${this.#calls} finished calls were discarded because another part failed.`;
    const lost = usage ? [{ name: this.#summarizer.name, code: error.code, message: discarded, usage }] : [];
    return withAttempts(error, [...this.#attempts, ...lost]);
  }

  /** Keeps what an error was billed, once. */
  record(error: SummarizerError): SummarizerError {
    if (!this.#recorded.has(error)) this.#attempts.push(...attemptsOf(this.#summarizer.name, error));
    this.#recorded.add(error);
    return error;
  }

  #askForNotes(requests: readonly SummaryRequest[]): Promise<string[]> {
    return runPool(requests, this.#concurrency, this.#request.signal, async (request, signal) => {
      const answer = await this.#ask({ ...request, signal }, true);
      return answer.text.trim();
    });
  }

  /** One call; `isNote` where its answer must be usable here, the caller being the judge of the summary itself. */
  async #ask(request: SummaryRequest, isNote = false): Promise<SummaryAnswer> {
    const { name } = this.#summarizer;
    try {
      const asked = { ...request, ...this.#progress.next() };
      const answer = await awaitAnswer(this.#summarizer, asked, ABORT_GRACE_MS);
      if (isNote) validAnswer(name, answer, { sections: [] });
      this.#calls += answer.calls ?? 1;
      this.#usage = addUsage(this.#usage, answer.usage);
      this.#attempts.push(...(answer.attempts ?? []));
      return answer;
    } catch (thrown) {
      throw this.record(toSummarizerError(thrown, name, request.signal));
    }
  }

  #finish(answer: SummaryAnswer, omitted: SummaryOmission): FittedAnswer {
    const usage = this.#usage;
    const attempts = this.#attempts;
    return {
      ...answer,
      ...(usage && { usage }),
      ...(attempts.length > 0 && { attempts }),
      omitted,
      calls: this.#calls,
    };
  }
}
