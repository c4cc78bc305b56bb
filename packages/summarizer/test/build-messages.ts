import type {
  AssistantMessage,
  ContextMessage,
  ToolResultMessage,
  Usage,
  UserMessage,
} from "@espalier/session-tree";

/** A user message of one text. */
export const user = (text: string): UserMessage => ({ role: "user", content: text, timestamp: 1 });

/** An answer of text and calls. */
export function assistant(
  text: string,
  calls: { id: string; name: string; arguments: Record<string, unknown> }[] = [],
  more: Partial<AssistantMessage> = {},
): AssistantMessage {
  const blocks = calls.map((call) => ({ type: "toolCall" as const, ...call }));
  return {
    role: "assistant",
    content: [...(text === "" ? [] : [{ type: "text" as const, text }]), ...blocks],
    provider: "anthropic",
    model: "claude-haiku-4-5",
    stopReason: calls.length > 0 ? "toolUse" : "stop",
    timestamp: 2,
    ...more,
  };
}

/** The result of a call. */
export const result = (
  toolCallId: string,
  text: string,
  more: Partial<ToolResultMessage> = {},
): ToolResultMessage => ({
  role: "toolResult",
  toolCallId,
  toolName: "read",
  content: [{ type: "text", text }],
  isError: false,
  timestamp: 3,
  ...more,
});

/** An image, as pasted by a user. */
export const picture = (data = "iVBORw0KGgo="): ContextMessage => ({
  role: "user",
  content: [{ type: "image", data, mimeType: "image/png" }],
  timestamp: 4,
});

/** A usage of these many tokens of prompt and answer. */
export const usage = (input: number, output: number): Usage => ({
  input,
  output,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: input + output,
});
