import type { CompactFailedEvent, CompactionOutcome } from "@espalier/compaction";
import type { CompactionRun } from "./compaction-run.ts";
import { EngineError } from "./engine-error.ts";

/** What extensions are told of a compaction that is not in the log. */
export function failureEvent(
  { reason, willRetry, isProposed }: CompactionRun,
  error: unknown,
): CompactFailedEvent {
  const { code } = error as { code?: unknown };
  const outcome = OUTCOMES[String(code)] ?? "failed";
  const by = error instanceof EngineError ? error.by : undefined;
  const message = error instanceof Error ? error.message : String(error);
  const aborted = outcome === "aborted" || outcome === "cancelled";
  return {
    reason,
    outcome,
    ...(by ? { by } : {}),
    error: { code: typeof code === "string" ? code : "failed", message },
    ...(aborted ? {} : { errorMessage: message }),
    aborted,
    fromExtension: isProposed,
    willRetry,
  };
}

const OUTCOMES: Readonly<Record<string, CompactionOutcome>> = {
  aborted: "aborted",
  cancelled: "cancelled",
  stale: "skipped",
};
