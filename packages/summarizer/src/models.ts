import type { Settings, Usage } from "@espalier/session-tree";

/** Prices in US dollars per million tokens; an absent price equals `input`. */
export interface TokenPrices {
  /** Price of prompt tokens that did not come from a cache. */
  input: number;
  /** Price of tokens of the answer, including thinking. */
  output: number;
  /** Price of prompt tokens read from the provider's cache. */
  cacheRead?: number;
  /** Price of prompt tokens written to the provider's cache, with a lifetime of five minutes. */
  cacheWrite?: number;
}

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

/** Returns the window of the model that a session names, in tokens; undefined when it is unknown. */
export function contextWindowOf(model: Settings["model"]): number | undefined {
  return model?.provider === "anthropic" ? knownModel(model.modelId)?.contextWindow : undefined;
}

/** Returns the prices of a request with so many tokens of prompt; undefined when the model's prices are unknown. */
function pricesFor(promptTokens: number, model: AnthropicModel): Required<TokenPrices> | undefined {
  const { prices, longPrompt } = model;
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
 * A cache entry with a lifetime of one hour costs twice the input price; `cacheWrite` is the price for five minutes.
 */
const HOUR_WRITE_FACTOR = 2;

/**
 * Converts reported usage to that of a session, with its cost when the model's prices are known. Some servers with this
 * API report no usage; it then counts as zero.
 */
export function toUsage(given: ReportedUsage | null | undefined, model: AnthropicModel): Usage {
  const reported = given ?? {};
  const input = reported.input_tokens ?? 0;
  const output = reported.output_tokens ?? 0;
  const cacheRead = reported.cache_read_input_tokens ?? 0;
  const cacheWrite = reported.cache_creation_input_tokens ?? 0;
  const prompt = input + cacheRead + cacheWrite;
  const usage: Usage = { input, output, cacheRead, cacheWrite, totalTokens: prompt + output };
  const hourly = Math.min(cacheWrite, reported.cache_creation?.ephemeral_1h_input_tokens ?? 0);
  return withCost(usage, pricesFor(prompt, model), hourly);
}

/**
 * Returns a usage with its cost in US dollars; the same usage without prices.
 *
 * @param hourly tokens of `cacheWrite` with a lifetime of one hour
 */
export function withCost(usage: Usage, prices: TokenPrices | undefined, hourly = 0): Usage {
  if (!prices) return usage;
  const { input, output, cacheRead = input, cacheWrite = input } = prices;
  const cost = {
    input: dollars(usage.input, input),
    output: dollars(usage.output, output),
    cacheRead: dollars(usage.cacheRead, cacheRead),
    cacheWrite: dollars(usage.cacheWrite - hourly, cacheWrite) + dollars(hourly, input * HOUR_WRITE_FACTOR),
  };
  return { ...usage, cost: { ...cost, total: cost.input + cost.output + cost.cacheRead + cost.cacheWrite } };
}

const dollars = (tokens: number, perMillion: number) => (tokens * perMillion) / 1_000_000;

/**
 * Returns the facts of a model of the catalogue; undefined for any other. A date or `-latest` at the end of its id is
 * ignored.
 */
function knownModel(id: string): AnthropicModel | undefined {
  const name = id.replace(/[-@](?:\d{8}|latest)$/, "");
  return Object.hasOwn(anthropicModels, name) ? anthropicModels[name] : undefined;
}

/** Day on which the prices of the catalogue were last compared with their sources, ISO 8601. */
export const PRICES_DATE = "2026-11-22";

/**
 * Returns the prices of a model for a request of so many tokens, in US dollars per million tokens; undefined when they
 * are unknown. The catalogue has the models of Anthropic, only for that provider, and of OpenAI, for any other
 * provider.
 *
 * @param own prices by `provider/model` or by model that override the catalogue
 */
export function pricesOf(
  model: Settings["model"],
  promptTokens = 0,
  own: Readonly<Record<string, TokenPrices>> = {},
): Required<TokenPrices> | undefined {
  if (!model) return undefined;
  const { provider, modelId } = model;
  const name = [`${provider}/${modelId}`, modelId].find((one) => Object.hasOwn(own, one));
  if (name !== undefined) {
    const { input, output, cacheRead = input, cacheWrite = input } = own[name]!;
    return { input, output, cacheRead, cacheWrite };
  }
  if (provider !== "anthropic") return openaiPrices(modelId, promptTokens);
  const known = knownModel(modelId);
  return known && pricesFor(promptTokens, known);
}

/** Prices of a model of OpenAI; longer prompts cost more with some models. */
interface OpenaiPrices {
  prices: Required<TokenPrices>;
  long?: { above: number; prices: Required<TokenPrices> };
}

/** @param cacheWrite price of a cache write for newer models; other models charge the input price */
const list = (input: number, output: number, cacheRead = input / 10, cacheWrite = input): OpenaiPrices => ({
  prices: { input, output, cacheRead, cacheWrite },
});

/** Returns prices with a limit: longer prompts cost twice as much, and their answers half as much again. */
const tiered = (
  { prices: { input, output, cacheRead, cacheWrite } }: OpenaiPrices,
  above: number,
): OpenaiPrices => ({
  prices: { input, output, cacheRead, cacheWrite },
  long: {
    above,
    prices: { input: input * 2, output: output * 1.5, cacheRead: cacheRead * 2, cacheWrite: cacheWrite * 2 },
  },
});

/**
 * Models of OpenAI by id without its date, at the standard prices of developers.openai.com and of GitHub's table of the
 * same models; retired models stay for sessions that used them.
 */
const OPENAI_MODELS: Readonly<Record<string, OpenaiPrices>> = {
  "gpt-5.6-sol": tiered(list(5, 30, 0.5, 6.25), 272_000),
  "gpt-5.6-terra": tiered(list(2, 12, 0.2, 2.5), 272_000),
  "gpt-5.6-luna": tiered(list(0.2, 1.2, 0.02, 0.25), 200_000),
  "gpt-5.5": tiered(list(5, 30), 272_000),
  "gpt-5.4": tiered(list(2.5, 15), 272_000),
  "gpt-5.4-mini": list(0.75, 4.5),
  "gpt-5.4-nano": list(0.2, 1.25),
  "gpt-5.3-codex": list(1.75, 14),
  "gpt-5.2": list(1.75, 14),
  "gpt-5.2-codex": list(1.75, 14),
  "gpt-5.1": list(1.25, 10),
  "gpt-5.1-codex": list(1.25, 10),
  "gpt-5.1-codex-max": list(1.25, 10),
  "gpt-5.1-codex-mini": list(0.25, 2),
  "gpt-5": list(1.25, 10),
  "gpt-5-codex": list(1.25, 10),
  "gpt-5-mini": list(0.25, 2),
  "gpt-5-nano": list(0.05, 0.4),
  "codex-mini": list(1.5, 6, 0.375),
  "gpt-4.1": list(2, 8, 0.5),
  o3: list(2, 8, 0.5),
  "o4-mini": list(1.1, 4.4, 0.275),
};

function openaiPrices(id: string, promptTokens: number): Required<TokenPrices> | undefined {
  const name = id.replace(/-(?:\d{4}-\d\d-\d\d|latest)$/, "");
  if (!Object.hasOwn(OPENAI_MODELS, name)) return undefined;
  const { prices, long } = OPENAI_MODELS[name]!;
  return long && promptTokens > long.above ? long.prices : prices;
}
