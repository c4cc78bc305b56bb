import { CompactionError, type NothingToCompact, tokenBudget } from "@espalier/compaction";
import { compaction, isFailedAnswer } from "@espalier/session-tree";
import { situationOf } from "./compaction-request.ts";
import type { CompactionResult, CompactSessionOptions } from "./run-compaction.ts";
import type { SessionState } from "./session-state.ts";

/** Automatic compactions in a row that are allowed without an answer of the model between them. */
const MOST_IN_A_ROW = 2;

/** Judges the policy at the leaf and compacts when it says so. */
export async function compactWhenDue(
  session: SessionState,
  options: CompactSessionOptions,
  compact: (options: CompactSessionOptions) => Promise<CompactionResult | NothingToCompact>,
): Promise<CompactionResult | NothingToCompact | undefined> {
  const policy = options.policy ?? session.options.policy ?? tokenBudget;
  const situation = situationOf(session, options);
  if (!situation.settings.autoCompact) return undefined;
  const reason = policy.judge(situation);
  if (!reason) return undefined;
  if (automaticInARow(session) >= MOST_IN_A_ROW) {
    const message = `The context was compacted ${MOST_IN_A_ROW} times in a row without an answer of the model, and is still due for it; use a model with a larger window, or compact by hand and keep less.`;
    throw new CompactionError("exhausted", message, {
      breakdown: { contextTokens: situation.context.tokens, overhead: situation.overheadTokens },
    });
  }
  return compact({ ...options, policy, reason });
}

/** Automatic compactions on the path since the newest answer that did not fail. */
export function automaticInARow({ core }: SessionState): number {
  let count = 0;
  for (let at = core.window.entries.length - 1; at >= 0; at--) {
    const entry = core.window.entries[at]!;
    const said = (entry as { message?: Parameters<typeof isFailedAnswer>[0] }).message;
    if (said?.role === "assistant" && !isFailedAnswer(said)) return count;
    if (compaction.is(entry) && (entry.details as { reason?: unknown } | undefined)?.reason !== "manual")
      count++;
  }
  return count;
}
