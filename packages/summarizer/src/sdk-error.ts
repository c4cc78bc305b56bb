// The meaning of an error of a provider's SDK, from its fields and its words.
import type { SummaryErrorCode } from "@espalier/jsonl-stream";
import type { Usage } from "@espalier/session-tree";
import { type HeaderReader, retryAfter } from "./retry.ts";
import { isSummaryError, type SummaryError, summaryError } from "./summarizer.ts";

/**
 * Fields of an SDK error. Errors are recognised by their fields, because a caller's client may come from another copy
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
  headers?: Partial<HeaderReader>;
}

/** Words of providers and proxies that refuse a request body for its bytes. */
const TOO_MANY_BYTES = /request_too_large|request entity too large|payload too large/i;

/**
 * Words of providers that refuse a request as longer than the model's window. Each provider has its own words and few
 * have a code; the list is from their documented and observed messages.
 */
const OVERFLOW_WORDS = [
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

/** Words that look like an overflow and have another cause: a different limit with a different cure. */
const OTHER_WORDS = [/rate limit/i, /too many requests/i, /per (?:minute|day|hour)/i, /quota/i];

/** Returns whether the words of an error refuse a request as longer than the model's window. */
export const namesOverflow = (words: string): boolean =>
  OVERFLOW_WORDS.some((pattern) => pattern.test(words)) &&
  !OTHER_WORDS.some((pattern) => pattern.test(words));

/** Returns whether the words of an error refuse a request for its bytes. */
export const namesByteOverflow = (words: string): boolean => TOO_MANY_BYTES.test(words);

/** Converts an error of a provider's SDK to an error of this package, with the usage that is known so far. */
export function sdkError(thrown: unknown, signal: AbortSignal | undefined, usage?: Usage): SummaryError {
  if (isSummaryError(thrown)) return thrown;
  const shape: ErrorShape = typeof thrown === "object" && thrown !== null ? thrown : {};
  const said = typeof shape.message === "string" ? shape.message : String(thrown);
  const code = codeOf(shape, said, signal);
  const retryAfterMs = retryAfter(shape.headers);
  return summaryError(code, sentence(code, said), { cause: thrown, usage, retryAfterMs });
}

function codeOf(shape: ErrorShape, said: string, signal: AbortSignal | undefined): SummaryErrorCode {
  // Not every SDK sets the name of its errors.
  const names = [shape.name, shape.constructor?.name];
  if (signal?.aborted || names.includes("APIUserAbortError")) return "aborted";
  if (names.includes("APIConnectionTimeoutError")) return "timeout";
  if (names.includes("APIConnectionError")) return "connection";
  const words = [shape.type, shape.code, said].map(String);
  // A monthly limit is reported like a rate limit, but does not end after a wait.
  if (typeof shape.errorCode === "string" && shape.errorCode.includes("spend_limit")) return "unauthorized";
  if (words.includes("insufficient_quota")) return "unauthorized";
  // Inside a stream, some servers send the status as the code.
  const status = [shape.status, shape.statusCode, shape.code].find(isStatus);
  const byStatus = status === undefined ? undefined : codeByStatus(status);
  const code = byStatus ?? codeByType(words);
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
const CODE_BY_TYPE: Record<string, SummaryErrorCode> = {
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
};

/** Returns the code of an error by its type, its code, or the type that begins its message. */
function codeByType(words: readonly string[]): SummaryErrorCode | undefined {
  for (const word of words) {
    const [first = ""] = word.split(":");
    if (Object.hasOwn(CODE_BY_TYPE, first)) return CODE_BY_TYPE[first];
  }
  return undefined;
}

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
  failed: "The request for a summary failed.",
};

function sentence(code: SummaryErrorCode, said: string): string {
  const cure = CURES[code] ?? "The request for a summary failed.";
  return code === "aborted" ? cure : `${cure} (${said})`;
}
