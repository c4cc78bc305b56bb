import type { Settings } from "@espalier/session-tree";
import { type AnthropicModel, knownModel, pricesFor } from "./anthropic-models.ts";
import type { TokenPrices } from "./tokens.ts";

/** Day on which the prices of the catalogue were last compared with their sources, ISO 8601. */
export const PRICES_DATE = "2026-11-22";

/**
 * Returns the prices of a model for a request of so many tokens, in US dollars per million tokens; undefined when they
 * are unknown. The catalogue has the models of Anthropic, only for that provider, and of OpenAI, for any other
 * provider.
 *
 * @param own prices by `provider/model` or by model that override the catalogue; an absent cache price equals `input`
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
  const known = provider === "anthropic" ? knownModel(modelId) : openaiModel(modelId);
  return known && pricesFor(promptTokens, known);
}

/** Prices of a model of OpenAI; longer prompts cost more with some models. */
type OpenaiModel = Pick<AnthropicModel, "longPrompt"> & { prices: Required<TokenPrices> };

/** @param cacheWrite price of a cache write for newer models; other models charge the input price */
const list = (input: number, output: number, cacheRead = input / 10, cacheWrite = input): OpenaiModel => ({
  prices: { input, output, cacheRead, cacheWrite },
});

/** Returns prices with a limit: longer prompts cost twice as much, and their answers half as much again. */
const tiered = (
  { prices: { input, output, cacheRead, cacheWrite } }: OpenaiModel,
  above: number,
): OpenaiModel => ({
  prices: { input, output, cacheRead, cacheWrite },
  longPrompt: {
    above,
    prices: { input: input * 2, output: output * 1.5, cacheRead: cacheRead * 2, cacheWrite: cacheWrite * 2 },
  },
});

/**
 * Models of OpenAI by id without its date, at the standard prices of developers.openai.com and of GitHub's table of the
 * same models; retired models stay for sessions that used them.
 */
const OPENAI_MODELS: Readonly<Record<string, OpenaiModel>> = {
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

function openaiModel(id: string): OpenaiModel | undefined {
  const name = id.replace(/-(?:\d{4}-\d\d-\d\d|latest)$/, "");
  return Object.hasOwn(OPENAI_MODELS, name) ? OPENAI_MODELS[name] : undefined;
}
