import {
  type ContextMessage,
  contextOfPath,
  estimateTokens,
  estimateTotal,
  formatCount,
  formatMany,
  isFailedAnswer,
  pathWindowAt,
  type SessionContext,
  type Tree,
  type Usage,
} from "@espalier/session-tree";
import { pricesOf, type TokenPrices } from "@espalier/summarizer";
import { amount } from "./bills.ts";
import { formatCost } from "./figures.ts";
import { sentText } from "./requests.ts";

/** Effect of an action on the next request's use of the prompt cache. Sizes are tokens as the provider counts them. */
export interface CacheForecast {
  /** Size of the next request, without the next message. */
  context: number;
  /** Part of the request that is not in the cache and has to be written. */
  anew: number;
  /** US dollars for writing that part instead of reading it; null when no price is known. */
  cost: number | null;
  /**
   * Number of calls after which smaller requests have saved that cost; null when they never do, or no price is known.
   */
  paysBackAfter: number | null;
}

/** A context after an action, by the estimate of characters / 4. */
export interface CacheChange {
  /** Tokens of its messages. */
  tokens: number;
  /** Tokens of the messages at its beginning that are also in the last request. */
  shared: number;
}

/**
 * Forecasts the next request after an action: the size of the part to write, its price, and the number of calls after
 * which it has paid off. Estimates are converted to the provider's tokens by the counts that it reported since the last
 * change. System prompt and tools count as cached, because they come first and the action does not change them.
 */
export function forecastCache(
  context: SessionContext,
  { tokens, shared }: CacheChange,
  prices?: Required<TokenPrices>,
): CacheForecast {
  const { overhead, scale, estimate } = calibrate(context);
  const after = Math.round(overhead + scale * tokens);
  const anew = Math.round(scale * Math.max(0, tokens - shared));
  if (!prices) return { context: after, anew, cost: null, paysBackAfter: null };
  const million = 1_000_000;
  const cost = (anew * Math.max(0, prices.cacheWrite - prices.cacheRead)) / million;
  const saved = ((overhead + scale * estimate - after) * prices.cacheRead) / million;
  const paysBackAfter = cost === 0 ? 0 : saved > 0 ? Math.ceil(cost / saved) : null;
  return { context: after, anew, cost, paysBackAfter };
}

/** Describes a forecast in one sentence for people. */
export function cacheSentence({ context, anew, cost, paysBackAfter }: CacheForecast): string {
  if (anew === 0) return "Prompt cache: the next request needs no cache write.";
  const dollars = cost ? `, which costs ${formatCost(cost)} more than reading them` : "";
  const paid = paysBackAfter
    ? `; smaller requests pay that back after ${formatMany(paysBackAfter, "call")}`
    : "";
  return `Prompt cache: the next request has about ${formatMany(context, "token")} as the provider counts them, and writes ${formatCount(anew)} of them to the cache${dollars}${paid}.`;
}

/** Returns the change from one context to another, after a navigation, an edit or an undo. */
export function cacheChange(before: SessionContext, after: SessionContext): CacheChange {
  const isSame = (message: ContextMessage, at: number) => {
    const other = before.messages[at];
    return message === other || (other !== undefined && sentText(message) === sentText(other));
  };
  const differs = after.messages.findIndex((message, at) => !isSame(message, at));
  const shared = differs < 0 ? after.messages : after.messages.slice(0, differs);
  return { tokens: estimateTotal(after.messages), shared: estimateTotal(shared) };
}

/**
 * Forecasts the effect of moving from one row to another on the prompt cache: of a navigation or a compaction. -1 is
 * before the first entry.
 *
 * @param own prices by `provider/model` or model that override those of the catalogue
 */
export function forecastNavigation(
  tree: Tree,
  from: number,
  to: number,
  own?: Readonly<Record<string, TokenPrices>>,
): CacheForecast {
  const contextAt = (row: number) => {
    const window = pathWindowAt(tree, row);
    return contextOfPath(window.entries, window.before);
  };
  const [before, after] = [contextAt(from), contextAt(to)];
  return forecastCache(before, cacheChange(before, after), pricesOf(after.model, after.tokens, own));
}

/**
 * Estimates the tokens of system prompt and tools, and the provider's tokens for one estimated token, from the first
 * and the last count that still describe the messages before them. With one count, all missing tokens are overhead;
 * with no count, overhead is 0.
 */
function calibrate(context: SessionContext): { overhead: number; scale: number; estimate: number } {
  const counts: { estimate: number; counted: number }[] = [];
  let estimate = 0;
  for (const [at, message] of context.messages.entries()) {
    if (isFailedAnswer(message)) continue;
    const counted = message.role === "assistant" && !context.prefixChanged[at] ? promptOf(message.usage) : 0;
    if (counted > 0) counts.push({ estimate, counted });
    if (message.role !== "system") estimate += estimateTokens(message);
  }
  const [first, last] = [counts[0], counts.at(-1)];
  if (!first || !last) return { overhead: 0, scale: 1, estimate };
  const scale = (last.counted - first.counted) / (last.estimate - first.estimate);
  if (!(scale >= LEAST_SCALE && scale <= MOST_SCALE))
    return { overhead: Math.max(0, last.counted - last.estimate), scale: 1, estimate };
  return { overhead: Math.max(0, last.counted - scale * last.estimate), scale, estimate };
}

/** Plausible range of the provider's tokens for one estimated token: a count outside it describes something else. */
const LEAST_SCALE = 0.25;
const MOST_SCALE = 4;

const promptOf = (usage: Usage | undefined): number =>
  amount(usage?.input) + amount(usage?.cacheRead) + amount(usage?.cacheWrite);
