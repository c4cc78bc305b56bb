import { jsonText } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  contextOfPath,
  estimateTokens,
  estimateTotal,
  isFailedAnswer,
  pathWindowAt,
  type SessionContext,
  type Tree,
} from "@espalier/session-tree";
import { pricesOf, type TokenPrices } from "@espalier/summarizer";

/** Effect of an act on the next request's use of the prompt cache. Sizes are tokens as the provider counts them. */
export interface CacheForecast {
  /** Size of the next request, without what is said next. */
  context: number;
  /** Part of it that the cache lacks, and that is written anew. */
  anew: number;
  /** US dollars for writing that part instead of reading it; null where no price is known. */
  cost: number | null;
  /** Calls after which smaller requests have paid for it; null where they never do, or no price is known. */
  paysBackAfter: number | null;
}

/** A context after an act, by the estimate of characters / 4. */
export interface CacheChange {
  /** Tokens of its messages. */
  tokens: number;
  /** Tokens of the messages at its beginning that the last request had too. */
  shared: number;
}

/**
 * Forecasts the next request after an act: the size of what is written anew, its price, and the calls after which it has paid.
 * Estimates become counts of the provider by those that it reported since the last change. System prompt and tools
 * count as cached: they come first, and the act does not change them.
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

/** The change from one context to another: after a navigation, an edit, an undo. */
export function cacheChange(before: SessionContext, after: SessionContext): CacheChange {
  const isSame = (message: ContextMessage, at: number) => {
    const other = before.messages[at];
    return message === other || (other !== undefined && sentText(message) === sentText(other));
  };
  const differs = after.messages.findIndex((message, at) => !isSame(message, at));
  const shared = differs < 0 ? after.messages : after.messages.slice(0, differs);
  return { tokens: estimateTotal(after.messages), shared: estimateTotal(shared) };
}

/** What a provider is sent of a message, as text: neither its time nor its bill. */
function sentText({ timestamp: _, ...message }: ContextMessage): string {
  return jsonText({ ...message, usage: undefined });
}

/**
 * Forecasts the effect of going from one row to another on the prompt cache: a navigation, or over a compaction. -1 is
 * before the first entry.
 *
 * @param own prices that count before those of the catalogue, by `provider/model` or model
 */
export function forecastNavigation(
  tree: Tree,
  from: number,
  to: number,
  own?: Readonly<Record<string, TokenPrices>>,
): CacheForecast {
  const [before, after] = [from, to].map((row) => {
    const window = pathWindowAt(tree, row);
    return contextOfPath(window.entries, window.before);
  }) as [SessionContext, SessionContext];
  return forecastCache(before, cacheChange(before, after), pricesOf(after.model, after.tokens, own));
}

/**
 * Tokens of system prompt and tools, and tokens of the provider for one of the estimate: by the first and the last count
 * that still describe what is before them. With one count all that the estimate lacks is overhead; with none there is none.
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

/** Tokens of a provider for one of the estimate: outside of this a count describes something else. */
const LEAST_SCALE = 0.25;
const MOST_SCALE = 4;

function promptOf(usage: { input?: unknown; cacheRead?: unknown; cacheWrite?: unknown } | undefined): number {
  const counts = [usage?.input, usage?.cacheRead, usage?.cacheWrite];
  return counts.reduce<number>(
    (sum, count) => (typeof count === "number" && count > 0 && Number.isFinite(count) ? sum + count : sum),
    0,
  );
}
