import { openPairs } from "@espalier/compaction";
import type { ContextMessage, SessionContext } from "@espalier/session-tree";
import { activeMessages } from "./active-messages.ts";

/**
 * A context's messages with at most the newest `limit` active ones; the summary and the system's words in front of them
 * are not counted. A call and its results go out together or not at all, so there may be fewer; only where not one
 * message could be left, the newest call stays with all its results.
 */
export function newestWhole(
  context: Pick<SessionContext, "messages" | "sources">,
  limit: number,
): readonly ContextMessage[] {
  const active = activeMessages(context);
  if (active.length <= limit) return context.messages;
  const from = firstWhole(active, active.length - limit);
  return [...context.messages.slice(0, context.messages.length - active.length), ...active.slice(from)];
}

/** The first place from `from` on that lies between no call and its results, else the last one before. */
function firstWhole(messages: readonly ContextMessage[], from: number): number {
  const open = openPairs(messages.map((message) => [message]));
  for (let at = from; at < messages.length; at++) if (open[at] === 0) return at;
  for (let at = from; at > 0; at--) if (open[at] === 0) return at;
  return 0;
}
