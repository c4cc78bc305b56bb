import { CompactionError } from "@espalier/compaction";
import { compaction } from "@espalier/session-tree";
import { SummarizerError } from "@espalier/summarizer";
import type { CompactionRun } from "./compaction-run.ts";

/**
 * Refuses to go on with a compaction that nobody wants any more, or whose plan is no longer that of the path. A path
 * that only grew is fine.
 *
 * @throws SummarizerError `aborted`; CompactionError `stale`
 */
export function refuseStale({ session, plan, signal }: CompactionRun): void {
  if (signal.aborted) throw new SummarizerError("aborted", "The compaction was aborted.");
  const path = session.core.window.entries;
  const planned = path.findIndex(({ id }) => id === plan.leafId);
  if (path.slice(planned + 1).some((entry) => compaction.is(entry)))
    throw new CompactionError("stale", "Another compaction came first; nothing was written.");
  if (planned < 0)
    throw new CompactionError(
      "stale",
      "The branch was left while it was compacted; nothing was written. Go back to it and compact again.",
    );
}
