import { anthropicFormat, buildRequest, type SessionContext } from "@espalier/session-tree";

/**
 * What Anthropic refuses about the shape of a conversation, in words; none when a request of the context is valid.
 * https://docs.anthropic.com/en/api/messages
 */
export function requestProblems(context: SessionContext): string[] {
  const { messages } = buildRequest(context, { format: anthropicFormat });
  const problems: string[] = [];
  const ids = new Set<string>();
  let owed: string[] = [];
  for (const [at, message] of messages.entries()) {
    const { role, content } = message;
    if (role === messages[at - 1]?.role || (at === 0 && role !== "user"))
      problems.push(`${at}: roles alternate, the user first`);
    if (content.length === 0) problems.push(`${at}: empty`);
    const results = content.flatMap((block) => (block.type === "tool_result" ? [block.tool_use_id] : []));
    if (role === "user" && results.join() !== owed.join())
      problems.push(`${at}: results ${results} for calls ${owed}`);
    const calls = content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
    for (const id of calls) if (ids.size === ids.add(id).size) problems.push(`${at}: two calls ${id}`);
    owed = calls;
  }
  if (owed.length > 0) problems.push(`calls ${owed} without results`);
  return problems;
}
