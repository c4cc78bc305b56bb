import type { Settings } from "@espalier/session-tree";

/** Prices in US dollars for a million tokens. `cacheWrite` is that of a five-minute cache. */
export interface AnthropicPrices {
  /** Of tokens of the prompt that no cache had. */
  input: number;
  /** Of tokens of the answer, thinking included. */
  output: number;
  /** Of tokens of the prompt that the cache had. */
  cacheRead: number;
  /** Of tokens that were put into the cache. */
  cacheWrite: number;
}

/** What has to be known of a model before it is asked. Sizes in tokens. */
export interface AnthropicModel {
  /** Tokens of a request and its answer together. */
  contextWindow: number;
  /** The most that `max_tokens` may be. */
  maxOutputTokens: number;
  /** Absent where nobody knows them. */
  prices?: AnthropicPrices;
  /** Prices of requests with more than `above` tokens of prompt, where they differ. */
  longPrompt?: { above: number; prices: AnthropicPrices };
  /** True for models that think unless told otherwise: thinking counts against `max_tokens` too. */
  thinksByDefault?: boolean;
}

/** A price list in the usual proportions: a cache write costs 1.25 times the input, a read a tenth. */
const prices = (input: number, output: number, cacheRead = input / 10): AnthropicPrices => ({
  input,
  output,
  cacheRead,
  cacheWrite: input * 1.25,
});

const MILLION = 1_000_000;
const OUTPUT_4_5 = 64_000;
const OUTPUT_128K = 128_000;

const small = (price: AnthropicPrices, maxOutputTokens = OUTPUT_4_5): AnthropicModel => ({
  contextWindow: 200_000,
  maxOutputTokens,
  prices: price,
});

const large = (price: AnthropicPrices, thinksByDefault = false): AnthropicModel => ({
  contextWindow: MILLION,
  maxOutputTokens: OUTPUT_128K,
  prices: price,
  ...(thinksByDefault && { thinksByDefault }),
});

/**
 * Models by id without its date. Sizes and prices are those of platform.claude.com, each model's overview and the page
 * on pricing, compared on 22 November 2026; retired models stay for sessions that used them. Reading Sonnet 5.5 from the
 * cache costs half of the usual tenth since 7 October 2026.
 */
export const anthropicModels: Readonly<Record<string, AnthropicModel>> = {
  "claude-fable-5-1": large(prices(10, 50, 0.25), true),
  "claude-fable-5": large(prices(10, 50), true),
  "claude-opus-5-5": large(prices(4, 20, 0.2), true),
  "claude-opus-5": large(prices(5, 25), true),
  "claude-opus-4-8": large(prices(5, 25)),
  "claude-opus-4-7": large(prices(5, 25)),
  "claude-opus-4-6": large(prices(5, 25)),
  "claude-opus-4-5": small(prices(5, 25)),
  "claude-opus-4-1": small(prices(15, 75), 32_000),
  "claude-opus-4": small(prices(15, 75), 32_000),
  "claude-sonnet-5-5": large(prices(2, 10, 0.1), true),
  "claude-sonnet-5": large(prices(2, 10), true),
  "claude-sonnet-4-6": large(prices(3, 15)),
  "claude-sonnet-4-5": small(prices(3, 15)),
  "claude-sonnet-4": small(prices(3, 15)),
  "claude-haiku-5-5": {
    ...large(prices(0.1, 0.5), true),
    longPrompt: { above: 100_000, prices: prices(0.5, 2.5) },
  },
  "claude-haiku-4-5": small(prices(1, 5)),
  "claude-3-5-haiku": small(prices(0.8, 4), 8_192),
};

/** What is assumed of a model that nobody here knows: the smallest sizes among those in use. */
const UNKNOWN_ANTHROPIC_MODEL: AnthropicModel = { contextWindow: 200_000, maxOutputTokens: 8_192 };

/** What is known of a model; a date or `-latest` at the end of its id does not matter. */
export function anthropicModel(id: string): AnthropicModel {
  return knownModel(id) ?? UNKNOWN_ANTHROPIC_MODEL;
}

/** The window of the model that a session names, in tokens; undefined where it is not known here. */
export function contextWindowOf(model: Settings["model"]): number | undefined {
  return model?.provider === "anthropic" ? knownModel(model.modelId)?.contextWindow : undefined;
}

function knownModel(id: string): AnthropicModel | undefined {
  const name = id.replace(/[-@](?:\d{8}|latest)$/, "");
  return Object.hasOwn(anthropicModels, name) ? anthropicModels[name] : undefined;
}
