import type Anthropic from "@anthropic-ai/sdk";
import type { SummaryErrorCode } from "@espalier/jsonl-stream";
import type { Usage } from "@espalier/session-tree";
import type { SummaryError } from "../summarizer.ts";
import { isSummaryError, summaryError } from "../summarizer.ts";
import type { AnthropicModel, AnthropicPrices } from "./request.ts";

/** What of an SDK error is looked at. By shape: a client handed in may come from another copy of the SDK. */
interface ErrorShape {
  name?: unknown;
  message?: unknown;
  status?: unknown;
  type?: unknown;
  errorCode?: unknown;
  headers?: { get?: (name: string) => string | null };
}

/** How the API says that a request is too large for the model. */
const TOO_LONG =
  /prompt is too long|exceeds? (?:the )?(?:model'?s? )?(?:context|maximum)|context (?:window|length|limit)|too many (?:input )?tokens|input is too long|request_too_large/i;

/** An error of the SDK as one of this package, with what is known to have been billed until then. */
export function fromAnthropicError(
  thrown: unknown,
  signal: AbortSignal | undefined,
  usage?: Usage,
): SummaryError {
  if (isSummaryError(thrown)) return thrown;
  const shape: ErrorShape = typeof thrown === "object" && thrown !== null ? thrown : {};
  const said = typeof shape.message === "string" ? shape.message : String(thrown);
  const code = codeOf(shape, said, signal);
  const retryAfterMs = retryAfter(shape);
  return summaryError(code, sentence(code, said), { cause: thrown, usage, retryAfterMs });
}

function codeOf(shape: ErrorShape, said: string, signal: AbortSignal | undefined): SummaryErrorCode {
  if (signal?.aborted || shape.name === "APIUserAbortError") return "aborted";
  if (shape.name === "APIConnectionTimeoutError") return "timeout";
  if (shape.name === "APIConnectionError") return "connection";
  // A monthly limit is reported like a rate limit, and does not pass by waiting.
  if (typeof shape.errorCode === "string" && shape.errorCode.includes("spend_limit")) return "unauthorized";
  const byType = typeof shape.type === "string" ? CODE_BY_TYPE[shape.type] : undefined;
  const byStatus = typeof shape.status === "number" ? codeByStatus(shape.status) : undefined;
  const code = byStatus ?? byType;
  if (code === "bad-request" && TOO_LONG.test(said)) return "too-long";
  if (/authentication method|api ?key/i.test(said)) return code ?? "unauthorized";
  // The SDK has no class for a stream that ends too early: it wraps what the connection threw, or says so in words.
  if (code === undefined && shape.name === "AnthropicError") return "connection";
  return code ?? "failed";
}

/** Types of errors, which also come as an event inside a stream, where there is no status. */
const CODE_BY_TYPE: Record<string, SummaryErrorCode> = {
  overloaded_error: "overloaded",
  api_error: "overloaded",
  rate_limit_error: "rate-limited",
  timeout_error: "timeout",
  request_too_large: "too-long",
  authentication_error: "unauthorized",
  permission_error: "unauthorized",
  billing_error: "unauthorized",
  not_found_error: "bad-request",
  invalid_request_error: "bad-request",
};

function codeByStatus(status: number): SummaryErrorCode {
  if (status === 429) return "rate-limited";
  if (status === 413) return "too-long";
  if (status === 408) return "timeout";
  if (status === 409 || status >= 500) return "overloaded";
  if (status === 401 || status === 402 || status === 403) return "unauthorized";
  return "bad-request";
}

/** `retry-after` is a number of seconds, or a date. */
function retryAfter(shape: ErrorShape): number | undefined {
  if (typeof shape.headers?.get !== "function") return undefined;
  const milliseconds = Number(shape.headers.get("retry-after-ms") ?? Number.NaN);
  if (milliseconds >= 0) return milliseconds;
  const value = shape.headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  const wait = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1_000;
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

const CURES: Partial<Record<SummaryErrorCode, string>> = {
  overloaded: "The provider is overloaded; try again later.",
  "rate-limited": "The provider asks to slow down; try again later.",
  connection: "The connection to the provider failed; check the network and the base address.",
  timeout: "The provider took too long; try again or allow more time.",
  "too-long": "The request is larger than the model's window; take a model with a larger one.",
  unauthorized: "The provider refused the key or the account; check the key and its limits.",
  "bad-request": "The provider refused the request; check the name of the model and the parameters.",
  aborted: "The summary was aborted.",
  failed: "The request for a summary failed.",
};

function sentence(code: SummaryErrorCode, said: string): string {
  const cure = CURES[code] ?? "The request for a summary failed.";
  return code === "aborted" ? cure : `${cure} (${said})`;
}

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

/** How Claude is reached. Everything may be left out where `ANTHROPIC_API_KEY` is set. */
export interface AnthropicAccess {
  /** A client of `@anthropic-ai/sdk`; otherwise one is made of `apiKey` and `baseURL` with the first request. */
  client?: Anthropic;
  /** The SDK reads `ANTHROPIC_API_KEY` where this is absent or empty. */
  apiKey?: string;
  /** The SDK reads `ANTHROPIC_BASE_URL` where this is absent or empty. */
  baseURL?: string;
}

/** Gives the client, which is made, and its SDK loaded, when it is asked for first. */
export function anthropicClient({ client, apiKey, baseURL }: AnthropicAccess): () => Promise<Anthropic> {
  let loading: Promise<Anthropic> | undefined;
  const load = async () => {
    const { default: Client } = await import("@anthropic-ai/sdk").catch((cause: unknown) => {
      const message = "Claude needs the package @anthropic-ai/sdk: npm install @anthropic-ai/sdk";
      throw summaryError("failed", message, { cause });
    });
    return new Client({ ...(apiKey && { apiKey }), ...(baseURL && { baseURL }) });
  };
  return () => (loading ??= client ? Promise.resolve(client) : load());
}
