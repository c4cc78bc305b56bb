import type { Usage } from "@espalier/session-tree";
import { abortError } from "./abort.ts";
import { type FailedAttempt, SummarizerError } from "./summarizer-error.ts";
import { addUsage } from "./usage.ts";

/** Whatever was thrown as an error of this package; `aborted` when the signal says so. */
export function toSummarizerError(thrown: unknown, name: string, signal?: AbortSignal): SummarizerError {
  if (thrown instanceof SummarizerError) return thrown;
  if (signal?.aborted) return abortError(signal, { cause: thrown });
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return new SummarizerError("failed", `The summarizer "${name}" failed: ${reason}`, { cause: thrown });
}

/** The calls behind an error: those it lists, else itself as one. */
export function attemptsOf(name: string, error: SummarizerError): readonly FailedAttempt[] {
  if (error.attempts.length > 0) return error.attempts;
  const { code, message, usage } = error;
  return [{ name, code, message, ...(usage && { usage }) }];
}

/** The error again, with every failed call before it and the sum of what they were billed. */
export function withAttempts(error: SummarizerError, attempts: readonly FailedAttempt[]): SummarizerError {
  let usage: Usage | undefined;
  for (const attempt of attempts) usage = addUsage(usage, attempt.usage);
  const { code, message, cause, retryAfterMs } = error;
  return new SummarizerError(code, message, { cause: cause ?? error, attempts, usage, retryAfterMs });
}
