import { type CompactionDetails, CompactionError, type CompactionReason } from "@espalier/compaction";
import { type ContextMessage, compaction, isFailedAnswer } from "@espalier/session-tree";
import type { SessionState } from "./session-state.ts";

/** Automatic compactions in a row that are allowed without an answer of the model between them. */
const MOST_IN_A_ROW = 2;

/**
 * Automatic compactions on the path since the newest answer that did not fail. What one of ours keeps may begin behind
 * the one before it, so each records how many it makes.
 */
export function automaticInARow({ core }: Pick<SessionState, "core">): number {
  let count = 0;
  for (const entry of core.window.entries.toReversed()) {
    const { message } = entry as { message?: ContextMessage };
    if (message?.role === "assistant" && !isFailedAnswer(message)) return count;
    if (!compaction.is(entry)) continue;
    const { automaticInARow: recorded, reason } = (entry.details ?? {}) as Partial<CompactionDetails>;
    if (typeof recorded === "number") return count + recorded;
    if (reason !== "manual" && reason !== "policy") count++;
  }
  return count;
}

/**
 * Refuses what would go round in circles.
 * @throws CompactionError `exhausted` for an automatic compaction after two without an answer of the model between
 */
export function refuseAfterTwo(
  session: SessionState,
  reason: CompactionReason,
  breakdown: Record<string, number>,
): void {
  // What a policy does after an append was brought about by messages: it cannot go round in circles.
  if (reason === "manual" || reason === "policy" || automaticInARow(session) < MOST_IN_A_ROW) return;
  const message = `The context was compacted ${MOST_IN_A_ROW} times in a row without an answer of the model, and is still due for it; use a model with a larger window, or compact by hand and keep less.`;
  throw new CompactionError("exhausted", message, { breakdown });
}
