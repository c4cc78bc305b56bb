import { trustedTokens } from "@espalier/compaction";
import { EventType, progressMessage } from "@espalier/policies";
import type { CompactionResult, CompactionRun } from "./compaction-run.ts";
import type { SessionState } from "./session-state.ts";

/** Publishes that a compaction begins, and how full the context is. */
export function announceCompaction({ session, policy, situation }: CompactionRun): void {
  const { context, settings, overheadTokens } = situation;
  const fill = policy.fill?.(situation) ?? trustedTokens(context, overheadTokens) / settings.contextWindow;
  session.events.publish(EventType.PROGRESS_UPDATE, { message: progressMessage(fill) });
}

/** Publishes what a compaction came to. */
export function announceResult(session: SessionState, result: CompactionResult): void {
  const { tokensBefore, tokensAfter, messagesRemoved } = result;
  session.events.publish(EventType.STATE_CHANGED, {
    name: "session.compaction",
    data: { tokensBefore, tokensAfter, messagesRemoved },
  });
}

/** Logs and publishes that a compaction nobody waits for did not come about; the session goes on as it was. */
export function reportFailure(session: SessionState, error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  const message = `The session was not compacted, and goes on as it is: ${reason}`;
  session.log.error(message, { error });
  session.events.publish(EventType.ERROR, { name: "session.compaction", message });
}
