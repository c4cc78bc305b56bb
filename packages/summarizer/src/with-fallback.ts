import { awaitAnswer, validAnswer, withSummarize } from "./await-answer.ts";
import { attemptsOf, toSummarizerError, withAttempts } from "./failed-attempt.ts";
import type { Summarizer, SummaryAnswer, SummaryRequest } from "./summarizer.ts";
import type { FailedAttempt, SummarizerErrorCode } from "./summarizer-error.ts";

const ABORT_GRACE_MS = 100;

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
  codes: readonly SummarizerErrorCode[],
  first: Summarizer,
  ...rest: Summarizer[]
): Summarizer {
  return chain([first, ...rest], (code) => codes.includes(code));
}

function chain(
  summarizers: readonly [Summarizer, ...Summarizer[]],
  goesOn: (code: SummarizerErrorCode) => boolean,
): Summarizer {
  return withSummarize(summarizers[0], (request) => askInOrder(summarizers, goesOn, request));
}

async function askInOrder(
  summarizers: readonly Summarizer[],
  goesOn: (code: SummarizerErrorCode) => boolean,
  request: SummaryRequest,
): Promise<SummaryAnswer> {
  const failed: FailedAttempt[] = [];
  for (const [place, summarizer] of summarizers.entries()) {
    try {
      const answer = validAnswer(
        summarizer.name,
        await awaitAnswer(summarizer, request, ABORT_GRACE_MS),
        request,
      );
      const attempts = [...failed, ...(answer.attempts ?? [])];
      return {
        ...answer,
        source: answer.source ?? summarizer.name,
        ...(attempts.length > 0 && { attempts }),
      };
    } catch (thrown) {
      const error = toSummarizerError(thrown, summarizer.name, request.signal);
      failed.push(...attemptsOf(summarizer.name, error));
      const isLast = place === summarizers.length - 1;
      if (isLast || error.code === "aborted" || !goesOn(error.code)) throw withAttempts(error, failed);
    }
  }
  throw new RangeError("A chain has at least one summarizer.");
}
