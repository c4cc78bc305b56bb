import { awaitAnswer, validAnswer, withSummarize } from "./await-answer.ts";
import { attemptsOf, toSummarizerError, withAttempts } from "./failed-attempt.ts";
import type { Summarizer, SummaryAnswer, SummaryRequest } from "./summarizer.ts";
import type { FailedAttempt, SummarizerError, SummarizerErrorCode } from "./summarizer-error.ts";

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
  summarizers: readonly [Summarizer, ...Summarizer[]],
  goesOn: (code: SummarizerErrorCode) => boolean,
  request: SummaryRequest,
): Promise<SummaryAnswer> {
  const failed: FailedAttempt[] = [];
  let last: SummarizerError | undefined;
  for (const summarizer of summarizers) {
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
      last = toSummarizerError(thrown, summarizer.name, request.signal);
      failed.push(...attemptsOf(summarizer.name, last));
      if (last.code === "aborted" || !goesOn(last.code)) break;
    }
  }
  throw withAttempts(last!, failed);
}
