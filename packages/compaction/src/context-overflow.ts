import type { ContextMessage, Usage } from "@espalier/session-tree";

/** How providers and proxies say that the body of a request had too many bytes, whatever its tokens. */
const TOO_MANY_BYTES = /request_too_large|request entity too large|payload too large/i;

/**
 * How providers say that a request was longer than the model's window. Each has words of its own and none has a code
 * for it; the list is from their documented and observed messages.
 */
const OVERFLOW_WORDS = [
  /prompt is too long/i,
  /input is too long/i,
  TOO_MANY_BYTES,
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
 * Whether a request was too long for the model, as the answer to it tells: by the words of the error, with which the
 * status comes; by a usage above the window, whatever the answer says, since some servers cut what does not fit and go
 * on; or by an answer of no tokens that ended at the limit, where the request left no room for one. An aborted answer
 * says nothing of the kind. What follows from it is `afterAnswer` of the agent; see `docs/decisions/0013`.
 *
 * @param contextWindow of the model, in tokens
 */
export function isContextOverflow(message: ContextMessage, contextWindow: number): boolean {
  if (message.role !== "assistant" || message.stopReason === "aborted") return false;
  const { usage, stopReason, errorMessage = "" } = message;
  const sent = usage ? inputTokens(usage) : 0;
  if (sent > contextWindow) return true;
  if (stopReason === "length") return usage?.output === 0 && sent === contextWindow;
  return stopReason === "error" && isOverflowTold(errorMessage);
}

/** Whether a request was refused for its bytes, as the answer to it tells. */
export const isByteOverflow = (message: ContextMessage): boolean =>
  message.role === "assistant" &&
  message.stopReason === "error" &&
  TOO_MANY_BYTES.test(message.errorMessage ?? "");

const isOverflowTold = (words: string): boolean =>
  OVERFLOW_WORDS.some((pattern) => pattern.test(words)) &&
  !OTHER_WORDS.some((pattern) => pattern.test(words));

function inputTokens(usage: Usage): number {
  const count = (value: unknown) => (typeof value === "number" ? value : 0);
  return count(usage.input) + count(usage.cacheRead) + count(usage.cacheWrite);
}
