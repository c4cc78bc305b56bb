import type { Session } from "@espalier/engine";
import { SessionTreeError } from "@espalier/session-tree";
import type { AfterAnswer } from "./after-answer.ts";
import type { Limits } from "./limits.ts";

/**
 * Compacts after an answer that stands; nothing is sent again. A compaction that fails, or that an extension vetoes,
 * costs no answer: the reason is logged and returned, and the next request tries again. Undefined where all went well,
 * or nothing is due.
 *
 * @throws SessionTreeError when the log cannot be written
 */
export async function compactAfter(
  session: Session,
  reason: AfterAnswer,
  limits: Limits,
  signal: AbortSignal,
): Promise<string | undefined> {
  const options = { ...limits, signal };
  try {
    if (reason === "nothing") return undefined;
    if (reason === "threshold") await session.compactWhenDue(options);
    else await session.compact({ ...options, reason, willRetry: false });
    return undefined;
  } catch (error) {
    if (!(error instanceof Error) || error instanceof SessionTreeError) throw error;
    session.log.error(`The session was not compacted, and goes on as it is: ${error.message}`, { error });
    return error.message;
  }
}
