// What each model call would have cost: real prices, token counts from the rough estimate.
import { estimateTokens, estimateTotal } from "./tokens.mjs";

/** US dollars for a million tokens, March 2026. */
const PRICES = {
  "claude-sonnet-4-5": { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 },
  "claude-haiku-4-5": { input: 1, output: 5, cacheRead: 0.1, cacheWrite: 1.25 },
  "gpt-5.1": { input: 1.25, output: 10, cacheRead: 0.125, cacheWrite: 0 },
};

/** The system prompt and the five tools of the agent, in tokens. */
const OVERHEAD = 3_180;

/** A provider forgets a cached prefix after this long. */
const CACHE_LIFETIME_MS = 5 * 60_000;

/** `counts` as a usage with its cost. */
export function priced(model, counts) {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0 } = counts;
  const price = PRICES[model];
  const dollars = (tokens, perMillion) => Number(((tokens * perMillion) / 1_000_000).toFixed(6));
  const cost = {
    input: dollars(input, price.input),
    output: dollars(output, price.output),
    cacheRead: dollars(cacheRead, price.cacheRead),
    cacheWrite: dollars(cacheWrite, price.cacheWrite),
  };
  const total = Number((cost.input + cost.output + cost.cacheRead + cost.cacheWrite).toFixed(6));
  const totalTokens = input + output + cacheRead + cacheWrite;
  return { input, output, cacheRead, cacheWrite, totalTokens, cost: { ...cost, total } };
}

/**
 * The usage of an answer to `context`. What the last answer of the same model on the path had sent is read from the
 * provider's cache, if that was recent and nothing has rewritten the context since.
 */
export function billAnswer({ model, context, path, content, now }) {
  const sent = OVERHEAD + Math.round(estimateTotal(context) * 1.08);
  const output = 12 + Math.round(estimateTokens({ role: "assistant", content }) * 1.05);
  const cached = cachedPrefix(path, model, now);
  const fresh = sent - cached;
  if (model.startsWith("gpt-")) return priced(model, { input: fresh, output, cacheRead: cached });
  const input = Math.min(fresh, 4 + (fresh % 7));
  return priced(model, { input, output, cacheRead: cached, cacheWrite: fresh - input });
}

function cachedPrefix(path, model, now) {
  for (const entry of path.toReversed()) {
    if (entry.type === "compaction" || entry.type === "context_edit") return 0;
    const message = entry.message;
    if (message?.role !== "assistant" || message.usage.totalTokens === 0) continue;
    if (message.model !== model || now - Date.parse(entry.timestamp) > CACHE_LIFETIME_MS) return 0;
    const { input, cacheRead, cacheWrite } = message.usage;
    return input + cacheRead + cacheWrite;
  }
  return 0;
}
