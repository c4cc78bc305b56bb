import { type ContextMessage, contentBlocks, fieldText, isFailedAnswer } from "@espalier/session-tree";
import { cutText, escapeText } from "@espalier/summarizer";

/** Characters of a tool result or a command's output that a summarizer is shown. */
const RESULT_LIMIT = 2_000;

/** Messages as lines `role: content` (origins 000). Calls and media stand in brackets, thinking is left out. */
export function formatMessages(messages: readonly ContextMessage[]): string {
  return told(messages)
    .map((message) => `${message.role}: ${contentOf(message, Number.POSITIVE_INFINITY)}`)
    .join("\n");
}

/**
 * The same lines as data for a summarizer: between tags, escaped, results cut to 2,000 characters. Further lines of one
 * message are indented, lest one of them reads as a message of somebody else.
 */
export function renderLines(messages: readonly ContextMessage[]): string {
  const lines = told(messages).map(
    (message) => `${message.role}: ${contentOf(message, RESULT_LIMIT).replace(LINE_END, "\n  ")}`,
  );
  return `<transcript>\n${escapeText(lines.join("\n"))}\n</transcript>`;
}

/** Whatever a reader may take for the end of a line. */
const LINE_END = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/g;

const told = (messages: readonly ContextMessage[]): ContextMessage[] =>
  messages.filter((message) => message.role !== "bashExecution" || !message.excludeFromContext);

function contentOf(message: ContextMessage, resultLimit: number): string {
  if (message.role === "compactionSummary" || message.role === "branchSummary")
    return fieldText(message.summary);
  if (message.role === "bashExecution")
    return `$ ${fieldText(message.command)}\n${cutText(fieldText(message.output), resultLimit)}`;
  const parts = contentBlocks(message).flatMap((block) => {
    if (block.type === "thinking") return [];
    if (block.type === "text") {
      // A file says what it says: not always text.
      const text = fieldText(block.text);
      return [message.role === "toolResult" ? cutText(text, resultLimit) : text];
    }
    if (block.type === "toolCall")
      return [`[${fieldText(block.name)} ${JSON.stringify(block.arguments ?? {})}]`];
    return [`[${block.type}]`];
  });
  if (isFailedAnswer(message)) parts.push("[failed]");
  return parts.join("\n");
}
