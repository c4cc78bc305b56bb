import { abortError } from "./abort.ts";
import { attemptsOf, toSummarizerError, withAttempts } from "./failed-attempt.ts";
import type { Summarizer, SummaryAnswer, SummaryRequest } from "./summarizer.ts";
import type { SummarizerError } from "./summarizer-error.ts";
import { validateSummary } from "./validate-summary.ts";

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
function unwanted(answer: SummaryAnswer, { name }: Summarizer, signal: AbortSignal): SummarizerError {
  const error = abortError(signal, { usage: answer.usage });
  return answer.attempts?.length
    ? withAttempts(error, [...answer.attempts, ...attemptsOf(name, error)])
    : error;
}

function failure(thrown: unknown, { name }: Summarizer, signal: AbortSignal | undefined): SummarizerError {
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
