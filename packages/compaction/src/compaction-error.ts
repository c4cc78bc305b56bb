import type { Usage } from "@espalier/session-tree";

/**
 * Why there is no compaction.
 *
 * - `no-smaller`: the context would not shrink
 * - `irreducible`: system prompt, tools and the newest user message alone exceed the window; `breakdown` says how much
 *   each takes
 * - `stale`: the path changed under the plan: its leaf is no longer on it, or another compaction came first
 * - `already-running`: one compaction at a time
 * - `exhausted`: two automatic compactions in a row brought no answer of the model
 * - `over-window`: the request is larger than the model's window, and nothing that could be done helped
 * - `over-bytes`: the request has more bytes than its provider takes, and nothing that could be done helped; `breakdown`
 *   says how many each part takes
 * - `auto-off`: the model's window overflowed and nothing may compact by itself
 */
export type CompactionErrorCode =
  | "no-smaller"
  | "irreducible"
  | "stale"
  | "already-running"
  | "exhausted"
  | "over-window"
  | "over-bytes"
  | "auto-off";

/** The one error class of this package. A summarizer's failure stays a `SummarizerError`. */
export class CompactionError extends Error {
  override readonly name = "CompactionError";
  readonly code: CompactionErrorCode;
  /** What cannot shrink, in tokens; in bytes for `over-bytes`. */
  readonly breakdown: Readonly<Record<string, number>> | undefined;
  /** What a provider billed although nothing was kept. */
  readonly usage: Usage | undefined;
  constructor(
    code: CompactionErrorCode,
    message: string,
    options: ErrorOptions & { breakdown?: Record<string, number>; usage?: Usage | undefined } = {},
  ) {
    super(message, options);
    this.code = code;
    this.breakdown = options.breakdown;
    this.usage = options.usage;
  }
}
