import { type ContextMessage, type SessionContext, toolCalls } from "@espalier/session-tree";
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
  const open = openPairs(messages);
  for (let at = from; at < messages.length; at++) if (open[at] === 0) return at;
  for (let at = from; at > 0; at--) if (open[at] === 0) return at;
  return 0;
}

/** For each place, how many calls before it have a result at it or behind it. */
function openPairs(messages: readonly ContextMessage[]): Int32Array {
  const change = new Int32Array(messages.length + 1);
  const callAt = new Map<string, number>();
  messages.forEach((message, at) => {
    for (const { id } of toolCalls(message)) callAt.set(id, at);
    const call = message.role === "toolResult" ? callAt.get(message.toolCallId) : undefined;
    if (call === undefined) return;
    change[call + 1]!++;
    change[at + 1]!--;
  });
  for (let at = 1; at < change.length; at++) change[at]! += change[at - 1]!;
  return change;
}
