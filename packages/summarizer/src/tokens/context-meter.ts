import { type ContextMessage, isFailedAnswer, type Usage } from "@espalier/session-tree";
import { usageTokens } from "../usage.ts";
import { charsEstimator } from "./chars-estimator.ts";
import { estimateMessages, type TokenEstimator } from "./token-estimator.ts";

/** How large a context is, and what of the number a provider vouches for. */
export interface ContextMeasure {
  /** All of it. */
  tokens: number;
  /** Tokens the provider reported; 0 where all is estimated. */
  reportedTokens: number;
  /** The message whose usage was taken, as an index; null where none could be. */
  usageIndex: number | null;
}

/** A way to measure a whole context. */
export interface ContextMeter {
  /** How settings name it. */
  readonly name: string;
  /**
   * `isTrusted` says of a message's index whether its usage still describes what stands before it: false for all that
   * lies before the last compaction or edit. Everything is trusted where it is absent.
   */
  measure(
    messages: readonly ContextMessage[],
    isTrusted?: (index: number) => boolean,
  ): ContextMeasure | Promise<ContextMeasure>;
}

/** The last usage that can be trusted, as `{index, tokens}`; undefined where there is none. */
export function lastTrustedUsage(
  messages: readonly ContextMessage[],
  isTrusted: (index: number) => boolean = () => true,
): { index: number; tokens: number } | undefined {
  for (let index = messages.length - 1; index >= 0; index--) {
    const message = messages[index]!;
    if (message.role !== "assistant" || isFailedAnswer(message) || !isTrusted(index)) continue;
    const tokens = isUsage(message.usage) ? usageTokens(message.usage) : 0;
    if (tokens > 0) return { index, tokens };
  }
  return undefined;
}

/** Measures by estimating every message. */
export function estimateMeter(estimator: TokenEstimator = charsEstimator) {
  return {
    name: estimator.name,
    /** Without waiting; nothing is taken from usage. */
    measure: (messages: readonly ContextMessage[]): ContextMeasure => ({
      tokens: estimateMessages(estimator, messages),
      reportedTokens: 0,
      usageIndex: null,
    }),
  } satisfies ContextMeter;
}

/** Measures by the last trusted usage plus an estimate of what follows it; all estimated where there is none. */
export function usageMeter(estimator: TokenEstimator = charsEstimator) {
  return {
    name: "usage",
    /** Without waiting. */
    measure(messages: readonly ContextMessage[], isTrusted?: (index: number) => boolean): ContextMeasure {
      const usage = lastTrustedUsage(messages, isTrusted);
      if (!usage) return estimateMeter(estimator).measure(messages);
      let tokens = usage.tokens;
      for (const message of messages.slice(usage.index + 1)) tokens += estimator.estimate(message);
      return { tokens, reportedTokens: usage.tokens, usageIndex: usage.index };
    },
  } satisfies ContextMeter;
}

/**
 * Measures by asking a provider (`count` is, for example, a call of `count_tokens` with the request these messages
 * become). Its errors are the caller's: who wants an estimate instead takes another meter.
 */
export function countMeter(count: (messages: readonly ContextMessage[]) => Promise<number>): ContextMeter {
  return {
    name: "count",
    async measure(messages) {
      const tokens = await count(messages);
      return { tokens, reportedTokens: tokens, usageIndex: null };
    },
  };
}

/** Session files are read without trust: a usage may be missing, or no object. */
function isUsage(usage: Usage | undefined): usage is Usage {
  return typeof usage === "object" && usage !== null;
}
