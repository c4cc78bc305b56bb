import type { ContextMessage } from "@espalier/session-tree";
import { wordEstimator } from "@espalier/summarizer";

const known = new WeakMap<ContextMessage, number>();

/**
 * Counts by words (origins 004): 0.75 a word, 0.5 a Chinese, Japanese or Korean character, 0.75 a code token, 0.25 a
 * special character, and 50 on top. A message is weighed once; it never changes.
 */
export const TokenCounter = {
  /** Tokens of one message. */
  estimate(message: ContextMessage): number {
    const weighed = known.get(message);
    if (weighed !== undefined) return weighed;
    const tokens = wordEstimator.estimate(message);
    known.set(message, tokens);
    return tokens;
  },

  /** Tokens of a text. */
  text: (text: string): number => wordEstimator.text(text),

  /** Tokens of messages, without anything on top. */
  messages(messages: readonly ContextMessage[]): number {
    let tokens = 0;
    for (const message of messages) tokens += TokenCounter.estimate(message);
    return tokens;
  },

  /** Tokens of a request: history, system prompt, and 50. */
  request(history: readonly ContextMessage[], systemPrompt = ""): number {
    return TokenCounter.messages(history) + TokenCounter.text(systemPrompt) + wordEstimator.overhead;
  },

  /** What comes on top of every total. */
  overhead: wordEstimator.overhead,
} as const;
