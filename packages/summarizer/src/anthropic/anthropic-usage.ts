import type { Usage } from "@espalier/session-tree";
import type { AnthropicModel, AnthropicPrices } from "./anthropic-models.ts";

/** The usage of a message as the Messages API reports it; fields that do not apply are null or absent. */
export interface ReportedUsage {
  input_tokens?: number | null;
  output_tokens?: number | null;
  cache_read_input_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  cache_creation?: { ephemeral_1h_input_tokens?: number | null } | null;
}

/** A one-hour cache entry costs twice the input price, where `cacheWrite` is that of five minutes. */
const HOUR_WRITE_FACTOR = 2;

/** Reported usage in the shape of a session, priced where the model's prices are known. */
export function toUsage(reported: ReportedUsage, model: AnthropicModel): Usage {
  const input = reported.input_tokens ?? 0;
  const output = reported.output_tokens ?? 0;
  const cacheRead = reported.cache_read_input_tokens ?? 0;
  const cacheWrite = reported.cache_creation_input_tokens ?? 0;
  const prompt = input + cacheRead + cacheWrite;
  const usage: Usage = { input, output, cacheRead, cacheWrite, totalTokens: prompt + output };
  const prices = pricesFor(prompt, model);
  if (!prices) return usage;
  const hourly = Math.min(cacheWrite, reported.cache_creation?.ephemeral_1h_input_tokens ?? 0);
  const cost = {
    input: dollars(input, prices.input),
    output: dollars(output, prices.output),
    cacheRead: dollars(cacheRead, prices.cacheRead),
    cacheWrite:
      dollars(cacheWrite - hourly, prices.cacheWrite) + dollars(hourly, prices.input * HOUR_WRITE_FACTOR),
  };
  return { ...usage, cost: { ...cost, total: cost.input + cost.output + cost.cacheRead + cost.cacheWrite } };
}

function pricesFor(promptTokens: number, model: AnthropicModel): AnthropicPrices | undefined {
  const { prices, longPrompt } = model;
  return longPrompt && promptTokens > longPrompt.above ? longPrompt.prices : prices;
}

const dollars = (tokens: number, perMillion: number) => (tokens * perMillion) / 1_000_000;
