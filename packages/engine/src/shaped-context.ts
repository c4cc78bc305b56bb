import { type ContextMessage, estimateTotal, type SessionContext } from "@espalier/session-tree";

/**
 * A context whose messages a policy or an extension changed. Messages that were left alone keep their source; from the
 * first change on, what was signed over the old prefix cannot be sent back.
 */
export function shapedContext(context: SessionContext, messages: readonly ContextMessage[]): SessionContext {
  const isSame =
    messages.length === context.messages.length &&
    messages.every((message, at) => message === context.messages[at]);
  if (isSame) return context;
  const places = new Map(context.messages.map((message, at) => [message, at]));
  const sources: string[] = [];
  const prefixChanged: boolean[] = [];
  let changed = false;
  messages.forEach((message, at) => {
    const before = places.get(message);
    sources.push(before === undefined ? "" : context.sources[before]!);
    prefixChanged.push(changed || (before !== undefined && context.prefixChanged[before]!));
    if (before !== at) changed = true;
  });
  return { ...context, messages: [...messages], sources, prefixChanged, tokens: estimateTotal(messages) };
}
