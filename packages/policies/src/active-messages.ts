import type { ContextMessage, SessionContext } from "@espalier/session-tree";

/**
 * The messages of a context that no summary stands for: all of them but what the newest compaction says. Results,
 * failed answers and commands excluded from requests count like any other message.
 */
export function activeMessages(context: Pick<SessionContext, "messages" | "sources">): ContextMessage[] {
  const compactionId = compactionIn(context);
  if (compactionId === undefined) return [...context.messages];
  return context.messages.filter((_, at) => context.sources[at] !== compactionId);
}

/** How many messages of a context are active. */
export function countActive(context: Pick<SessionContext, "messages" | "sources">): number {
  const compactionId = compactionIn(context);
  let count = context.messages.length;
  // What a compaction says stands first: its summary, and the system's words before it.
  for (let at = 0; at < context.sources.length && context.sources[at] === compactionId; at++) count--;
  return count;
}

/** The id of the compaction that speaks in a context; undefined when none does. */
export function compactionIn({
  messages,
  sources,
}: Pick<SessionContext, "messages" | "sources">): string | undefined {
  const at = messages.findIndex(({ role }) => role !== "system");
  return messages[at]?.role === "compactionSummary" ? sources[at] : undefined;
}
