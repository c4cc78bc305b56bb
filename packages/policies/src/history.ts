import { buildSessionContext, type ContextMessage } from "@espalier/session-tree";
import { activeMessages } from "./active-messages.ts";
import { formatMessages } from "./message-lines.ts";
import { type ReadableSession, SUMMARY_HEADING, sessionSummaries } from "./session-summary.ts";

/** How much of a session is read, and from where. */
export interface HistoryOptions {
  /** The newest messages, at most. Default 10. */
  limit?: number;
  /** Default: the session's. */
  leafId?: string | null;
}

const DEFAULT_LIMIT = 10;

/** The newest active messages of a session, oldest first. */
export function getHistory(
  session: ReadableSession,
  { limit = DEFAULT_LIMIT, leafId = session.leafId }: HistoryOptions = {},
): ContextMessage[] {
  const active = activeMessages(buildSessionContext(session, leafId));
  return active.slice(Math.max(0, active.length - limit));
}

/** The summaries of a session and its newest active messages, as one text. The limit cuts this text alone. */
export function getHistoryContext(session: ReadableSession, options: HistoryOptions = {}): string {
  const summaries = sessionSummaries(session, options.leafId);
  const summaryText = summaries.map(({ summary }) => summary).join("\n");
  const recent = formatMessages(getHistory(session, options));
  return `${SUMMARY_HEADING}${summaryText}\n\n## RECENT MESSAGES\n${recent}`;
}
