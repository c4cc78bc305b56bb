import { type AssistantMessage, isRecord, type StopReason, type Usage } from "@espalier/session-tree";

const STOP_REASONS: ReadonlyMap<unknown, StopReason> = new Map([
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["pause_turn", "stop"],
  ["refusal", "error"],
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["tool_use", "toolUse"],
]);

/** Fields of a response that say nothing a session wants to know. */
const ENVELOPE = new Set(["id", "type", "stop_sequence"]);

/**
 * What an answer that came as a response of the API says beside its content: model, usage, why it ended. An answer in a
 * request says nothing of this. A refusal is an answer that failed: the API asks for it to be left out of what follows.
 * `unread` names the fields that were not understood.
 */
export function answerFacts(fields: Record<string, unknown>): {
  said: Partial<AssistantMessage>;
  unread: string[];
} {
  const { model, stop_reason, usage, ...rest } = fields;
  const stopReason = STOP_REASONS.get(stop_reason);
  const errorMessage = stopReason === "error" ? `The model stopped: ${String(stop_reason)}.` : undefined;
  return {
    said: {
      ...(typeof model === "string" ? { model } : {}),
      ...(stopReason ? { stopReason } : {}),
      ...(errorMessage === undefined ? {} : { errorMessage }),
      ...(isRecord(usage) ? { usage: readUsage(usage) } : {}),
    },
    unread: Object.keys(rest).filter((field) => !ENVELOPE.has(field) && rest[field] !== null),
  };
}

/** Tokens of one call. The API bills what it read from and wrote to its cache apart from `input_tokens`. */
function readUsage(usage: Record<string, unknown>): Usage {
  const count = (field: string): number => {
    const value = usage[field];
    return typeof value === "number" ? value : 0;
  };
  const counted = {
    input: count("input_tokens"),
    output: count("output_tokens"),
    cacheRead: count("cache_read_input_tokens"),
    cacheWrite: count("cache_creation_input_tokens"),
  };
  const { input, output, cacheRead, cacheWrite } = counted;
  return { ...counted, totalTokens: input + output + cacheRead + cacheWrite };
}
