import { CompactionError } from "@espalier/compaction";
import type { Session } from "@espalier/engine";
import { type AssistantMessage, contextEdit, type Entry } from "@espalier/session-tree";
import { stillTooLong } from "./agent-error.ts";
import { breakdownOf, type Limits } from "./limits.ts";
import type { RunLog } from "./run-log.ts";

/**
 * What makes room for a request that was too long: the answer to it is left out (it stays in the file), and the path is
 * compacted. Once: after `overflows` in a row there is nothing left that could help.
 *
 * @throws CompactionError `auto-off` when nothing may compact by itself; AgentError `overflow` when nothing can shrink
 */
export async function recoverFromOverflow(
  session: Session,
  log: RunLog,
  failed: { answer: AssistantMessage; entry: Entry; overflows: number },
  limits: Limits,
  signal: AbortSignal,
): Promise<void> {
  if (failed.overflows > 0) throw stillTooLong(failed.answer, breakdownOf(session, limits));
  if (!limits.settings.autoCompact) {
    throw new CompactionError(
      "auto-off",
      "The request was too long for the model, and nothing may compact by itself; compact by hand, or use a model with a larger window.",
    );
  }
  await log.append([contextEdit.of({ targetId: failed.entry.id, replacement: null })]);
  const result = await session.compact({ ...limits, signal, reason: "overflow" });
  if (!result.eligible) throw stillTooLong(failed.answer, breakdownOf(session, limits));
}
