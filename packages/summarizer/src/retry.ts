import type { FailedAttempt, SummaryErrorCode } from "@espalier/jsonl-stream";
import type { Usage } from "@espalier/session-tree";
import {
  abortError,
  afterAttempts,
  attemptsOf,
  isInvalidAnswer,
  isPassing,
  isSummaryError,
  type Summarizer,
  type SummaryAnswer,
  type SummaryError,
  type SummaryRequest,
  stricterRequest,
  summaryError,
  toSummarizerError,
  validAnswer,
  withAttempts,
} from "./summarizer.ts";

/** Time that an aborted attempt has to report its usage, in milliseconds; outer wrappers allow more. */
const ABORT_GRACE_MS = 25;

/** About 25 days: timers use 32 bits, and a larger number would end at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Maximum wait that a provider may request, in milliseconds; for a longer one the error is thrown at once. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/**
 * Fetches like `fetch`, for the clients of SDKs, which wait as long as a server asks before they retry. An error
 * response that asks for more than a minute gets the header `x-should-retry: false`, so that the SDK throws its error
 * at once.
 */
export const fetchWithShortWaits: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  const isLong = !response.ok && (retryAfter(response.headers) ?? 0) > LONGEST_RETRY_AFTER_MS;
  if (!isLong) return response;
  const { body, status, statusText } = response;
  const headers = new Headers(response.headers);
  headers.set("x-should-retry", "false");
  return new Response(body, { status, statusText, headers });
};

/** Waits for this number of milliseconds; rejects as soon as the signal is aborted. */
export type Sleep = (milliseconds: number, signal?: AbortSignal) => Promise<void>;

/** Conditions for retrying a failed request. */
export interface RetryOptions {
  /** Maximum number of attempts with the same request. Default 3. */
  attempts?: number;
  /**
   * True: every failure but an abort is retried, after `delayMs` alone. Default: only temporary failures (`isPassing`),
   * and not before the time that the provider names.
   */
  every?: boolean;
  /** Returns the milliseconds to wait after failure n (from 1). Default: {@link exponentialDelay}. */
  delayMs?: (failure: number) => number;
  /**
   * Milliseconds after which one attempt counts as failed. Default 600,000, as in the Anthropic SDK. Infinity: never.
   */
  timeoutMs?: number;
  /** True if an invalid answer is retried once with a stricter instruction. Default true. */
  stricter?: boolean;
  /** Waits; tests pass their own function. */
  sleep?: Sleep;
  /** Called after each failure that counts as an attempt, with its number (from 1). */
  onFailure?: (failure: number, error: SummaryError) => void;
}

/**
 * Returns a wait in milliseconds that doubles from one second up to 30 seconds, reduced by a random part of up to half,
 * so that clients that failed together do not retry together.
 */
export function exponentialDelay(failure: number, random: () => number = Math.random): number {
  const full = Math.min(30_000, 1_000 * 2 ** (failure - 1));
  return Math.round(full * (1 - random() / 2));
}

/**
 * Retries temporary failures (`overloaded`, `rate-limited`, `connection`, `timeout`) after a wait, and an invalid
 * answer once, with a stricter instruction. Its answers are valid. After the last attempt, and at once for any other
 * error or when the provider asks for a wait of more than a minute, it throws the newest error, with the usage of all
 * attempts.
 */
export function withRetry(summarizer: Summarizer, options: RetryOptions = {}): Summarizer {
  const { attempts = 3, every = false, stricter = true, timeoutMs = 600_000 } = options;
  const { delayMs = exponentialDelay, sleep: wait = sleep, onFailure } = options;
  const { name } = summarizer;
  return withSummarize(summarizer, async (request) => {
    const failed: FailedAttempt[] = [];
    let asked = request;
    for (let failures = 0; ; ) {
      let error: SummaryError;
      try {
        return afterFailures(failed, validAnswer(name, await attempt(summarizer, asked, timeoutMs), request));
      } catch (thrown) {
        error = toSummarizerError(thrown, name, request.signal);
      }
      failed.push(...attemptsOf(name, error));
      if (isInvalidAnswer(error.code) && stricter && asked === request) {
        asked = stricterRequest(request, error.code);
        continue;
      }
      const retryAfterMs = every ? 0 : (error.retryAfterMs ?? 0);
      const canRetry = every ? error.code !== "aborted" : isPassing(error.code);
      if (canRetry) failures++;
      if (canRetry) onFailure?.(failures, error);
      if (!canRetry || failures >= attempts || retryAfterMs > LONGEST_RETRY_AFTER_MS)
        throw withAttempts(error, failed);
      try {
        await raceAbort(wait(Math.max(delayMs(failures), retryAfterMs), request.signal), request.signal);
      } catch (thrown) {
        throw withAttempts(toSummarizerError(thrown, name, request.signal), failed);
      }
    }
  });
}

/** Returns an answer with the failed attempts before it, oldest first. */
function afterFailures(failed: readonly FailedAttempt[], answer: SummaryAnswer): SummaryAnswer {
  return failed.length > 0 ? { ...answer, attempts: [...failed, ...(answer.attempts ?? [])] } : answer;
}

/** Makes one request, which ends by the caller's signal or by the time limit even if the summarizer ignores signals. */
async function attempt(
  summarizer: Summarizer,
  request: SummaryRequest,
  timeoutMs: number,
): Promise<SummaryAnswer> {
  const late = new AbortController();
  const timer = timeoutMs <= LONGEST_TIMER_MS ? setTimeout(() => late.abort(), timeoutMs) : undefined;
  const signal = request.signal ? AbortSignal.any([request.signal, late.signal]) : late.signal;
  try {
    return await awaitAnswer(summarizer, { ...request, signal }, ABORT_GRACE_MS);
  } catch (thrown) {
    if (!late.signal.aborted) throw thrown;
    const usage = isSummaryError(thrown) ? thrown.usage : undefined;
    const message = `No summary after ${timeoutMs} ms; allow more time.`;
    throw summaryError("timeout", message, { cause: thrown, usage });
  } finally {
    clearTimeout(timer);
  }
}

const FALLBACK_GRACE_MS = 100;

/**
 * Answers with the first summarizer whose answer is valid. The answer's `source` is its name, and `attempts` has the
 * failures and costs of those before it. An abort ends the chain at once. If all fail, the last error is thrown with
 * every attempt before it.
 */
export const withFallback = (first: Summarizer, ...rest: Summarizer[]): Summarizer =>
  fallback(() => true, first, rest);

/** Makes a fallback like {@link withFallback} only for these errors; any other error ends the chain and is thrown. */
export const withFallbackFor = (
  codes: readonly SummaryErrorCode[],
  first: Summarizer,
  ...rest: Summarizer[]
): Summarizer => fallback((code) => codes.includes(code), first, rest);

const fallback = (
  goesOn: (code: SummaryErrorCode) => boolean,
  first: Summarizer,
  rest: readonly Summarizer[],
) =>
  withSummarize(first, async (request) => {
    const failed: FailedAttempt[] = [];
    let last: SummaryError | undefined;
    for (const summarizer of [first, ...rest]) {
      const { name } = summarizer;
      try {
        const answer = validAnswer(name, await awaitAnswer(summarizer, request, FALLBACK_GRACE_MS), request);
        return { ...afterFailures(failed, answer), source: answer.source ?? name };
      } catch (thrown) {
        last = toSummarizerError(thrown, name, request.signal);
        failed.push(...attemptsOf(name, last));
        if (last.code === "aborted" || !goesOn(last.code)) break;
      }
    }
    throw withAttempts(last!, failed);
  });

/** Returns a summarizer with at most this window, in tokens; the same summarizer if its own is not larger. */
export function withWindow(summarizer: Summarizer, contextWindow: number): Summarizer {
  if (summarizer.contextWindow <= contextWindow) return summarizer;
  return { ...withSummarize(summarizer, (request) => summarizer.summarize(request)), contextWindow };
}

/**
 * Requests a summary, and ends with `aborted` soon after the request's signal is aborted, even if the summarizer
 * ignores it. A summarizer that reads the signal has `graceMs` to report its usage; later reports are ignored.
 */
export async function awaitAnswer(
  summarizer: Summarizer,
  request: SummaryRequest,
  graceMs: number,
): Promise<SummaryAnswer> {
  const { name } = summarizer;
  const { signal } = request;
  if (signal?.aborted) throw abortError(signal);
  let answer: SummaryAnswer;
  try {
    // Inside a promise, a summarizer that throws at once and one that rejects have the same effect.
    const asked = new Promise<SummaryAnswer>((answered) => answered(summarizer.summarize(request)));
    answer = await raceAbort(asked, signal, graceMs);
  } catch (thrown) {
    const error = toSummarizerError(thrown, name, signal);
    if (!signal?.aborted || error.code === "aborted") throw error;
    const { usage, attempts } = error;
    throw abortError(signal, { cause: error, usage, attempts });
  }
  // Of an answer after the abort only the usage is kept.
  if (signal?.aborted) throw afterAttempts(answer, name, abortError(signal, { usage: answer.usage }));
  return answer;
}

/** Returns a copy of a summarizer with another `summarize`. */
export function withSummarize(
  summarizer: Summarizer,
  summarize: (request: SummaryRequest) => Promise<SummaryAnswer>,
): Summarizer {
  const { name, model, contextWindow, maxOutputTokens } = summarizer;
  const same: Summarizer = { name, ...(model && { model }), contextWindow, maxOutputTokens, summarize };
  if (summarizer.promptTokens) same.promptTokens = (request) => summarizer.promptTokens!(request);
  return same;
}

/**
 * Returns the outcome of `work`. Throws `aborted` when the signal was aborted `graceMs` milliseconds ago (default 0),
 * even if the work ignores it. A later rejection of the work is not reported.
 *
 * @param errorOf returns another error for the abort
 */
export async function raceAbort<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  graceMs = 0,
  errorOf: (signal: AbortSignal) => unknown = abortError,
): Promise<T> {
  if (!signal) return work;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    const stop = () => reject(errorOf(signal));
    onAbort = () => {
      if (graceMs > 0) timer = setTimeout(stop, graceMs);
      else stop();
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** Waits; ends at once with `aborted` when the signal is aborted. */
export const sleep: Sleep = async (milliseconds, signal) => {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await raceAbort(wait, signal).finally(() => clearTimeout(timer));
};

/** Converts an error of a provider's SDK to an error of this package, with the usage that is known so far. */
export function sdkError(thrown: unknown, signal: AbortSignal | undefined, usage?: Usage): SummaryError {
  if (isSummaryError(thrown)) return thrown;
  const shape: ErrorShape = typeof thrown === "object" && thrown !== null ? thrown : {};
  const said = typeof shape.message === "string" ? shape.message : String(thrown);
  const code = codeOf(shape, said, signal);
  const retryAfterMs = retryAfter(shape.headers);
  return summaryError(code, sentence(code, said), { cause: thrown, usage, retryAfterMs });
}

/**
 * Fields of an SDK error. Errors are recognized by their fields, because a caller's client may come from another copy
 * of the SDK.
 */
interface ErrorShape {
  constructor?: { name?: unknown };
  name?: unknown;
  message?: unknown;
  status?: unknown;
  /** HTTP status in errors of the AI SDK. */
  statusCode?: unknown;
  type?: unknown;
  code?: unknown;
  errorCode?: unknown;
  headers?: HeaderReader;
}

type HeaderReader = Partial<Pick<Headers, "get">>;

/**
 * Returns the wait in milliseconds: `retry-after-ms`, else `retry-after`, which is a number of seconds or a date;
 * undefined without either.
 */
function retryAfter(headers: HeaderReader | undefined): number | undefined {
  if (typeof headers?.get !== "function") return undefined;
  const milliseconds = Number(headers.get("retry-after-ms") ?? Number.NaN);
  if (milliseconds >= 0) return milliseconds;
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  const wait = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1_000;
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

function codeOf(shape: ErrorShape, said: string, signal: AbortSignal | undefined): SummaryErrorCode {
  // Not every SDK sets the name of its errors.
  const names = [shape.name, shape.constructor?.name];
  if (signal?.aborted || names.includes("APIUserAbortError")) return "aborted";
  if (names.includes("APIConnectionTimeoutError")) return "timeout";
  if (names.includes("APIConnectionError")) return "connection";
  const types = [shape.type, shape.code, said].map(String);
  // A monthly limit is reported like a rate limit, but does not end after a wait.
  if (typeof shape.errorCode === "string" && shape.errorCode.includes("spend_limit")) return "unauthorized";
  if (types.includes("insufficient_quota")) return "unauthorized";
  // Inside a stream, some servers send the status as the code.
  const status = [shape.status, shape.statusCode, shape.code].find(isStatus);
  const byStatus = status === undefined ? undefined : codeByStatus(status);
  const code = byStatus ?? codeByType(types);
  if ((code === undefined || code === "bad-request") && namesOverflow(said)) return "too-long";
  if (/authentication method|api ?key/i.test(said)) return code ?? "unauthorized";
  // The SDKs have no class for a stream that ends too early: they wrap the connection's error, or have only a message.
  if (code === undefined && (shape.name === "AnthropicError" || LOST.test(said))) return "connection";
  return code ?? "failed";
}

const isStatus = (value: unknown): value is number =>
  typeof value === "number" && value >= 400 && value < 600;

/** Messages about a connection that was lost. */
const LOST = /^(?:terminated|fetch failed)$|socket hang up|ECONNRESET|ended before its answer/;

/** Codes by the type or the code of an error, which also come inside a stream, without a status. */
const CODE_BY_TYPE = new Map(
  Object.entries<SummaryErrorCode>({
    overloaded_error: "overloaded",
    api_error: "overloaded",
    server_error: "overloaded",
    server_is_overloaded: "overloaded",
    rate_limit_error: "rate-limited",
    rate_limit_exceeded: "rate-limited",
    timeout_error: "timeout",
    request_too_large: "too-long",
    context_length_exceeded: "too-long",
    authentication_error: "unauthorized",
    permission_error: "unauthorized",
    billing_error: "unauthorized",
    insufficient_quota: "unauthorized",
    not_found_error: "bad-request",
    invalid_request_error: "bad-request",
  }),
);

/** Returns the code of an error by its type, its code, or the type that begins its message. */
const codeByType = (types: readonly string[]): SummaryErrorCode | undefined =>
  types.map((type) => CODE_BY_TYPE.get(type.split(":", 1)[0]!)).find((code) => code !== undefined);

function codeByStatus(status: number): SummaryErrorCode {
  if (status === 429) return "rate-limited";
  if (status === 413) return "too-long";
  if (status === 408) return "timeout";
  if (status === 409 || status >= 500) return "overloaded";
  if (status === 401 || status === 402 || status === 403) return "unauthorized";
  return "bad-request";
}

const CURES: Partial<Record<SummaryErrorCode, string>> = {
  overloaded: "The provider is overloaded; try again later.",
  "rate-limited": "The provider asks to slow down; try again later.",
  connection: "The connection to the provider failed; check the network and the base address.",
  timeout: "The provider took too long; try again or allow more time.",
  "too-long": "The request is larger than the model's window; use a model with a larger one.",
  unauthorized: "The provider refused the key or the account; check the key and its limits.",
  "bad-request": "The provider refused the request; check the name of the model and the parameters.",
  aborted: "The summary was aborted.",
};

function sentence(code: SummaryErrorCode, said: string): string {
  const cure = CURES[code] ?? "The request for a summary failed.";
  return code === "aborted" ? cure : `${cure} (${said})`;
}

/** Messages of providers and proxies about a request body with too many bytes. */
const TOO_MANY_BYTES = /request_too_large|request entity too large|payload too large/i;

/**
 * Messages of providers about a request that is longer than the model's window. Each provider has its own messages, and
 * few have a code; the list is from their documented and observed messages.
 */
const OVERFLOW_MESSAGES = [
  /prompt is too long/i,
  /input is too long/i,
  TOO_MANY_BYTES,
  /exceeds? (?:the )?(?:model'?s? )?(?:maximum )?context (?:length|window|size|limit)/i,
  /maximum context length/i,
  /context[_ ]length[_ ]exceeded/i,
  /context[_ ]window[_ ]exceeded|exceeds? the (?:available )?context/i,
  /input token count.*exceeds/i,
  /maximum prompt length/i,
  /reduce the length of the (?:messages|prompt|input)/i,
  /too many (?:input )?tokens/i,
  /token limit exceeded/i,
  /too large for model with \d+ maximum context/i,
  /input length and `?max_tokens`? exceed/i,
];

/** Messages that look like an overflow but have another cause: a different limit with a different cure. */
const OTHER_MESSAGES = [/rate limit/i, /too many requests/i, /per (?:minute|day|hour)/i, /quota/i];

/**
 * Returns whether an error message says that the request is longer than the model's window or has too many bytes. A
 * message about a rate limit or quota does not count.
 */
export const namesOverflow = (message: string): boolean =>
  OVERFLOW_MESSAGES.some((pattern) => pattern.test(message)) &&
  !OTHER_MESSAGES.some((pattern) => pattern.test(message));

/** Returns whether an error message says that the request body has too many bytes. */
export const namesByteOverflow = (message: string): boolean => TOO_MANY_BYTES.test(message);
