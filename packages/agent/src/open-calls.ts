import { type ContextMessage, isFailedAnswer, type ToolCallBlock, toolCalls } from "@espalier/session-tree";

/** Calls of the newest answer that have no result: a process ended, or a branch was left, before they had one. */
export function openCalls(messages: readonly ContextMessage[]): ToolCallBlock[] {
  const answered = new Set<string>();
  for (const message of messages.toReversed()) {
    if (message.role === "toolResult") answered.add(message.toolCallId);
    if (message.role === "assistant" && !isFailedAnswer(message))
      return toolCalls(message).filter(({ id }) => !answered.has(id));
  }
  return [];
}

/** Whether the last word of a conversation is an answer, or nobody said anything: then there is nothing to ask. */
export function isAnswered(messages: readonly ContextMessage[]): boolean {
  const last = messages.findLast((message) => SPEAKING.has(message.role) && !isFailedAnswer(message));
  return last === undefined || last.role === "assistant";
}

const SPEAKING: ReadonlySet<string> = new Set(["user", "assistant", "toolResult"]);
