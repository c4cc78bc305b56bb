import type { Usage } from "@espalier/session-tree";

/**
 * Why there is no summary.
 *
 * - `overloaded`, `rate-limited`, `connection`, `timeout`: passing; worth another try
 * - `too-long`: the request does not fit the model's window
 * - `unauthorized`, `bad-request`: another try gives the same answer
 * - `empty`, `cut-off`, `refused`, `tool-call`, `missing-sections`: an answer that must not be kept
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
  | "missing-sections"
  | "aborted"
  | "failed";

/** The one error class of this package. `usage` is what the provider billed although there is no summary. */
export class SummarizerError extends Error {
  readonly code: SummarizerErrorCode;
  readonly usage: Usage | undefined;
  constructor(code: SummarizerErrorCode, message: string, options?: ErrorOptions & { usage?: Usage }) {
    super(message, options);
    this.name = "SummarizerError";
    this.code = code;
    this.usage = options?.usage;
  }
}
