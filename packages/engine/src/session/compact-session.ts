import {
  DEFAULT_MESSAGE_COUNT_SETTINGS,
  type MessageCountSettings,
  messageCount,
  type SessionSummary,
  sessionSummaries,
} from "@espalier/compaction/policies";
import type { CompactionRequest } from "../compaction/draft.ts";
import type { Session } from "./session.ts";

/** As for `Session.compact`; the policy is `message-count`, and `keepLast` is how many messages it keeps (default 10). */
export interface CompactSessionByCountOptions
  extends Omit<CompactionRequest, "policy">,
    Partial<Pick<MessageCountSettings, "keepLast">> {}

/**
 * Summarises a session's older messages (origins 000): the oldest `count − keepLast` active ones, `keepLast` being 10.
 * Null at or below that; else the summary that replaces them.
 *
 * @throws what `Session.compact` throws
 */
export async function compactSession(
  session: Session,
  options: CompactSessionByCountOptions = {},
): Promise<SessionSummary | null> {
  const { keepLast = DEFAULT_MESSAGE_COUNT_SETTINGS.keepLast, ...rest } = options;
  const maxMessages = Math.max(DEFAULT_MESSAGE_COUNT_SETTINGS.maxMessages, keepLast + 1);
  const result = await session.compact({ ...rest, policy: messageCount({ keepLast, maxMessages }) });
  return result.eligible ? (sessionSummaries(session).at(-1) ?? null) : null;
}
