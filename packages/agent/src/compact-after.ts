import { CompactionError } from "@espalier/compaction";
import type { Session } from "@espalier/engine";
import { SummarizerError } from "@espalier/summarizer";
import type { AfterAnswer } from "./after-answer.ts";
import type { Limits } from "./limits.ts";

/**
 * Compacts behind an answer that stands; nothing is sent again. A compaction that fails now is tried again before the
 * next request: what is returned is why, to be told; undefined where all went well, or nothing is due.
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
    if (!(error instanceof CompactionError || error instanceof SummarizerError)) throw error;
    return error.message;
  }
}
