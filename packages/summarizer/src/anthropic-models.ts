import type { Settings, Usage } from "@espalier/session-tree";
import { amount, type TokenPrices, withCost } from "./tokens.ts";

/** Facts of a model. Sizes in tokens. */
export interface AnthropicModel {
  /** Maximum number of tokens of a request and its answer together. */
  contextWindow: number;
  /** Largest value of `max_tokens`. */
  maxOutputTokens: number;
  /** Prices; absent when they are unknown. */
  prices?: Required<TokenPrices>;
  /** Prices of requests with more than `above` tokens of prompt, if they differ. */
  longPrompt?: { above: number; prices: Required<TokenPrices> };
  /** True for models that think by default: thinking also counts toward `max_tokens`. */
  thinksByDefault?: boolean;
}

/** Returns prices in the usual proportions: a cache write costs 1.25 times the input, a read a tenth. */
const prices = (input: number, output: number, cacheRead = input / 10): Required<TokenPrices> => ({
  input,
  output,
  cacheRead,
  cacheWrite: input * 1.25,
});
const MILLION = 1_000_000;
const OUTPUT_4_5 = 64_000;
const OUTPUT_128K = 128_000;

const small = (price: Required<TokenPrices>, maxOutputTokens = OUTPUT_4_5): AnthropicModel => ({
  contextWindow: 200_000,
  maxOutputTokens,
  prices: price,
});

const large = (price: Required<TokenPrices>, thinksByDefault = false): AnthropicModel => ({
  contextWindow: MILLION,
  maxOutputTokens: OUTPUT_128K,
  prices: price,
  ...(thinksByDefault && { thinksByDefault }),
});

/**
 * Models by id without its date. Sizes and prices are those of platform.claude.com, each model's overview and the page
 * on pricing, compared on `PRICES_DATE`; retired models stay for sessions that used them. Reading Sonnet 5.5 from the
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

/** Facts assumed of an unknown model: the smallest sizes among those in use. */
const UNKNOWN_ANTHROPIC_MODEL: AnthropicModel = { contextWindow: 200_000, maxOutputTokens: 8_192 };

/** Returns the facts of a model; a date or `-latest` at the end of its id does not matter. */
export function anthropicModel(id: string): AnthropicModel {
  return knownModel(id) ?? UNKNOWN_ANTHROPIC_MODEL;
}

/**
 * Returns the window of the model that a session names, in tokens; undefined for other providers and unknown models.
 */
export function contextWindowOf(model: Settings["model"]): number | undefined {
  return model?.provider === "anthropic" ? knownModel(model.modelId)?.contextWindow : undefined;
}

/** Returns the prices of a request with so many tokens of prompt; undefined when the model's prices are unknown. */
export function pricesFor(
  promptTokens: number,
  { prices, longPrompt }: Pick<AnthropicModel, "prices" | "longPrompt">,
): Required<TokenPrices> | undefined {
  return longPrompt && promptTokens > longPrompt.above ? longPrompt.prices : prices;
}

/** Usage of a message as the Messages API reports it; fields that do not apply are null or absent. */
export interface ReportedUsage {
  input_tokens?: number | null;
  output_tokens?: number | null;
  cache_read_input_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  cache_creation?: { ephemeral_1h_input_tokens?: number | null } | null;
}

/**
 * Converts reported usage to that of a session, with its cost when the model's prices are known. Some servers with this
 * API report no usage; a missing count is zero. The API counts tokens read from and written to its cache separately from
 * `input_tokens`.
 */
export function toUsage(
  reported: ReportedUsage | null | undefined,
  model: Pick<AnthropicModel, "prices" | "longPrompt"> = {},
): Usage {
  const input = amount(reported?.input_tokens);
  const output = amount(reported?.output_tokens);
  const cacheRead = amount(reported?.cache_read_input_tokens);
  const cacheWrite = amount(reported?.cache_creation_input_tokens);
  const prompt = input + cacheRead + cacheWrite;
  const usage: Usage = { input, output, cacheRead, cacheWrite, totalTokens: prompt + output };
  const hourly = Math.min(cacheWrite, amount(reported?.cache_creation?.ephemeral_1h_input_tokens));
  return withCost(usage, pricesFor(prompt, model), hourly);
}

/**
 * Returns the facts of a model of the catalogue; undefined for any other. A date or `-latest` at the end of its id is
 * ignored.
 */
export function knownModel(id: string): AnthropicModel | undefined {
  const name = id.replace(/[-@](?:\d{8}|latest)$/, "");
  return Object.hasOwn(anthropicModels, name) ? anthropicModels[name] : undefined;
}
