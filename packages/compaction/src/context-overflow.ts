import type { ContextMessage, Usage } from "@espalier/session-tree";

/**
 * How providers say that a request was longer than the model's window. Each has words of its own and none has a code
 * for it; the list is from their documented and observed messages.
 */
const OVERFLOW_WORDS = [
  /prompt is too long/i,
  /input is too long/i,
  /request_too_large/i,
  /exceeds? (?:the )?(?:model'?s? )?(?:maximum )?context (?:length|window|size)/i,
  /maximum context length/i,
  /context[_ ]length[_ ]exceeded/i,
  /context[_ ]window[_ ]exceeded|exceeds? the (?:available )?context/i,
  /input token count.*exceeds/i,
  /maximum prompt length/i,
  /reduce the length of the (?:messages|prompt|input)/i,
  /too many (?:input )?tokens/i,
  /token limit exceeded/i,
  /too large for model with \d+ maximum context/i,
  /input length and `?max_tokens`? exceed/i,
];

/** Words that look like an overflow and are something else: another limit, another cure. */
const OTHER_WORDS = [/rate limit/i, /too many requests/i, /per (?:minute|day|hour)/i, /quota/i];

/**
 * Whether an answer says that its request was too long for the model: by the error's words, or, where a server fills
 * the window and has no room left to answer, by an answer of no tokens that ended at the limit. A successful answer
 * never does, however large the provider says its request was: the window may be configured smaller than it is.
 *
 * @param contextWindow of the model, in tokens
 */
export function isContextOverflow(message: ContextMessage, contextWindow: number): boolean {
  if (message.role !== "assistant") return false;
  if (message.stopReason === "error") {
    const words = message.errorMessage ?? "";
    return (
      OVERFLOW_WORDS.some((pattern) => pattern.test(words)) &&
      !OTHER_WORDS.some((pattern) => pattern.test(words))
    );
  }
  const { usage } = message;
  return message.stopReason === "length" && usage?.output === 0 && inputTokens(usage) >= contextWindow;
}

function inputTokens(usage: Usage): number {
  const count = (value: unknown) => (typeof value === "number" ? value : 0);
  return count(usage.input) + count(usage.cacheRead) + count(usage.cacheWrite);
}
