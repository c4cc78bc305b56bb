import type { Usage } from "@espalier/session-tree";

/**
 * Why there is no summary.
 *
 * - `overloaded`, `rate-limited`, `connection`, `timeout`: passing; worth another try
 * - `too-long`: the request does not fit the model's window
 * - `unauthorized`, `bad-request`: another try gives the same answer
 * - `empty`, `cut-off`, `refused`, `tool-call`: an answer that must not be kept
 * - `aborted`: the caller's signal
 * - `failed`: anything else
 */
export type SummarizerErrorCode =
  | "overloaded"
  | "rate-limited"
  | "connection"
  | "timeout"
  | "too-long"
  | "unauthorized"
  | "bad-request"
  | "empty"
  | "cut-off"
  | "refused"
  | "tool-call"
  | "aborted"
  | "failed";

/** One call that gave no summary: who was asked, why there is none, what it cost. */
export interface FailedAttempt {
  /** The name of the summarizer. */
  name: string;
  code: SummarizerErrorCode;
  message: string;
  /** What the provider billed for it; absent where nothing was, or nobody knows. */
  usage?: Usage;
}

/** What an error carries beside its code. */
export interface SummarizerErrorOptions extends ErrorOptions {
  /** What was billed in all. Default: nothing. */
  usage?: Usage | undefined;
  /** What was tried, oldest first. Default: nothing else. */
  attempts?: readonly FailedAttempt[] | undefined;
  /** How long the provider asks to be left alone. Default: it did not say. */
  retryAfterMs?: number | undefined;
}

/** The one error class of this package. */
export class SummarizerError extends Error {
  readonly code: SummarizerErrorCode;
  /** All that the provider billed although there is no summary, over every attempt. */
  readonly usage: Usage | undefined;
  /** The calls that failed, oldest first, where there were several; their usage adds up to {@link usage}. */
  readonly attempts: readonly FailedAttempt[];
  /** How long the provider asks to wait before another try, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  constructor(code: SummarizerErrorCode, message: string, options?: SummarizerErrorOptions) {
    super(message, options);
    this.name = "SummarizerError";
    this.code = code;
    this.usage = options?.usage;
    this.attempts = options?.attempts ?? [];
    this.retryAfterMs = options?.retryAfterMs;
  }
}

const PASSING: ReadonlySet<SummarizerErrorCode> = new Set([
  "overloaded",
  "rate-limited",
  "connection",
  "timeout",
]);
const INVALID: ReadonlySet<SummarizerErrorCode> = new Set(["empty", "cut-off", "refused", "tool-call"]);

/** True for trouble that passes by itself: the same request may succeed a little later. */
export const isPassing = (code: SummarizerErrorCode): boolean => PASSING.has(code);

/** True where there was an answer, and it must not be kept. */
export const isInvalidAnswer = (code: SummarizerErrorCode): boolean => INVALID.has(code);
