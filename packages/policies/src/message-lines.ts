import { type ContextMessage, contentBlocks, isFailedAnswer } from "@espalier/session-tree";
import { cutText, escapeText } from "@espalier/summarizer";

/** Characters of a tool result or a command's output that a summarizer is shown. */
const RESULT_LIMIT = 2_000;

/** Messages as lines `role: content` (seed 000). Calls and media stand in brackets, thinking is left out. */
export function formatMessages(
  messages: readonly ContextMessage[],
  resultLimit = Number.POSITIVE_INFINITY,
): string {
  return messages
    .filter((message) => message.role !== "bashExecution" || !message.excludeFromContext)
    .map((message) => `${message.role}: ${contentOf(message, resultLimit)}`)
    .join("\n");
}

/** The same lines as data for a summarizer: between tags, escaped, results cut to 2,000 characters. */
export function renderLines(messages: readonly ContextMessage[]): string {
  return `<transcript>\n${escapeText(formatMessages(messages, RESULT_LIMIT))}\n</transcript>`;
}

function contentOf(message: ContextMessage, resultLimit: number): string {
  if (message.role === "compactionSummary" || message.role === "branchSummary") return message.summary ?? "";
  if (message.role === "bashExecution")
    return `$ ${message.command ?? ""}\n${cutText(message.output ?? "", resultLimit)}`;
  const parts = contentBlocks(message).flatMap((block) => {
    if (block.type === "thinking") return [];
    if (block.type === "text")
      return [message.role === "toolResult" ? cutText(block.text, resultLimit) : block.text];
    if (block.type === "toolCall") return [`[${block.name} ${JSON.stringify(block.arguments ?? {})}]`];
    return [`[${block.type}]`];
  });
  if (isFailedAnswer(message)) parts.push("[failed]");
  return parts.join("\n");
}
