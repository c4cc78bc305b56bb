import type { ContextMessage } from "@espalier/session-tree";

/** A way to guess how many tokens something takes, without asking a provider. */
export interface TokenEstimator {
  /** How settings name it. */
  readonly name: string;
  /** Tokens that come on top of every total, whatever is in it. */
  readonly overhead: number;
  /** Tokens of one neutral message. */
  estimate(message: ContextMessage): number;
  /** Tokens of a text. */
  text(text: string): number;
}

/** Tokens of a whole list: each message, and the estimator's overhead once. */
export function estimateMessages(estimator: TokenEstimator, messages: readonly ContextMessage[]): number {
  let total = estimator.overhead;
  for (const message of messages) total += estimator.estimate(message);
  return total;
}
