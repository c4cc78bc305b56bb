import { type ContextMessage, toolCalls } from "@espalier/session-tree";

/** Messages that stay or go together: an answer with the results of its calls, or any other message by itself. */
export interface MessageUnit {
  /** Places of its messages, in order. */
  indexes: number[];
  tokens: number;
  kind: "system" | "single" | "calls" | "orphan";
}

/** Takes a history apart; `orphan` are results whose call is not in it. In order of each unit's first message. */
export function messageUnits(
  messages: readonly ContextMessage[],
  estimate: (message: ContextMessage) => number,
): MessageUnit[] {
  const units: MessageUnit[] = [];
  const unitOfCall = new Map<string, MessageUnit>();
  messages.forEach((message, index) => {
    const tokens = estimate(message);
    const called = message.role === "toolResult" ? unitOfCall.get(message.toolCallId) : undefined;
    if (called) {
      called.indexes.push(index);
      called.tokens += tokens;
      return;
    }
    const unit: MessageUnit = { indexes: [index], tokens, kind: kindOf(message) };
    for (const { id } of toolCalls(message)) unitOfCall.set(id, unit);
    units.push(unit);
  });
  return units;
}

function kindOf(message: ContextMessage): MessageUnit["kind"] {
  if (message.role === "system") return "system";
  if (message.role === "toolResult") return "orphan";
  return toolCalls(message).length > 0 ? "calls" : "single";
}
