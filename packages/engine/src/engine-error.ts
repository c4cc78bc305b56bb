import { EspalierError } from "@espalier/jsonl-stream";

/** The error for an act that an extension vetoed: the same for a compaction, a navigation and a fork. */
export function cancelledBy(
  what: string,
  { by, reason }: { by: string; reason: string | null },
): EspalierError {
  const message = `The ${what} was cancelled by ${by}${reason ? `: ${reason}` : "."}`;
  return new EspalierError("cancelled", message, { by, ...(reason ? { reason } : {}) });
}

/** The error for a summary that no longer tells all there is to tell. */
export const branchWentOn = () =>
  new EspalierError("stale", "The branch went on while it was summarised; nothing was written. Try again.");
