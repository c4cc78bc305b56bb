import { type ContextMessage, isRecord, messageText, type Settings, toolCalls } from "@espalier/session-tree";
import { type SummaryRequest, summaryPrompt, summaryTask } from "../summarizer.ts";
import { renderMessage } from "../transcript.ts";

/** A Messages API request: the fields that this package reads, all others as they are. */
export interface MessagesBody extends SentBody {
  model: string;
  max_tokens: number;
}

/** A request as a session sent it. */
export interface SentBody {
  model?: string;
  max_tokens?: number;
  system?: unknown;
  tools?: unknown;
  messages: readonly unknown[];
  [field: string]: unknown;
}

/** The request that a session sent last: what its provider still has in its cache. */
export interface LastRequest {
  /** The body as it was sent, markers of the cache included. */
  body: SentBody;
  /** Tokens of its prompt as the provider counted them (input, cache reads and writes); bounded where absent. */
  inputTokens?: number;
}

/** A standalone request: the transcript, then the task. Nothing of it is worth a cache. */
export function standaloneBody(request: SummaryRequest, model: string, maxTokens: number): MessagesBody {
  const { system, user } = summaryPrompt(request);
  return { model, max_tokens: maxTokens, system, messages: [{ role: "user", content: user }] };
}

/**
 * The last request again, and one instruction more. System prompt, tools, messages, thinking and the choice of tools
 * stay as they were, byte for byte, since a cache serves nothing after the first difference.
 */
export function extendedBody(
  request: SummaryRequest,
  last: LastRequest,
  model: string,
  maxTokens: number,
): MessagesBody {
  const instruction = { role: "user", content: [{ type: "text", text: extendingInstruction(request) }] };
  return { ...last.body, model, max_tokens: maxTokens, messages: [...last.body.messages, instruction] };
}

/** The instruction that turns a running conversation into a request for a summary of a part of it. */
export function extendingInstruction(request: SummaryRequest): string {
  return [
    "The conversation stops here. This message is not part of it: it asks for a summary of what stands above. Do not continue the work, do not answer anything above, and do not call tools; answer with the text of the summary alone, and copy paths, identifiers, commands, numbers and error messages exactly.",
    ...partToSummarize(request),
    ...summaryTask(request),
  ].join("\n\n");
}

/** Names the part to summarise by the beginnings of its first and last message: the conversation may hold more. */
function partToSummarize(request: SummaryRequest): string[] {
  const shown = request.messages.map(
    (message) => renderMessage(message, { toolResultLimit: 200, textLimit: 200 }).text,
  );
  const said = shown.filter((text) => text !== "");
  const first = said[0];
  const last = said.at(-1);
  if (first === undefined || last === undefined) return [];
  return [
    "Summarise only the part of the conversation that begins and ends with the two messages below (both belong to it; long texts are shortened here, and `<` is written `&lt;`). What follows that part stays in the conversation.",
    `<begins-with>\n${first}\n</begins-with>`,
    `<ends-with>\n${last}\n</ends-with>`,
  ];
}

/**
 * Returns whether a last request can be extended. An answer with open tool calls at its end must be followed by their
 * results, and a request to another model finds nothing in the cache.
 */
export function canExtend(last: LastRequest, model: string): boolean {
  const { messages } = last.body;
  if (last.body.model !== undefined && last.body.model !== model) return false;
  const end: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  if (!isRecord(end)) return false;
  const blocks = Array.isArray(end["content"]) ? end["content"] : [];
  const isOpen = blocks.some((block) => isRecord(block) && block["type"] === "tool_use");
  return end["role"] === "user" || !isOpen;
}

/**
 * Returns whether a last request holds the messages to summarise, by their ends and by what users and tools said, in
 * this order: the answer to it is not in it, and neither is what was said on another branch.
 */
export function holdsMessages({ body }: LastRequest, { messages }: SummaryRequest): boolean {
  const sent = JSON.stringify(body.messages);
  let at = 0;
  for (const [place, message] of messages.entries()) {
    const isEnd = place === 0 || place === messages.length - 1;
    // An answer in between may have failed, and be in no request.
    if (!isEnd && message.role !== "user" && message.role !== "toolResult") continue;
    const mark = markOf(message);
    const found = sent.indexOf(mark, at);
    if (found < 0) return false;
    at = found + mark.length;
  }
  return true;
}

/** Characters of a message that it is recognised by. */
const MARK = 200;

/** Returns the beginning in JSON of a message's text, or else of its first call; empty for pictures alone. */
function markOf(message: ContextMessage): string {
  const text = messageText(message).trim() || (toolCalls(message)[0]?.id ?? "");
  // Half a character would be written as an escape.
  const whole = text.slice(0, MARK).replace(/[\ud800-\udbff]$/, "");
  return JSON.stringify(whole).slice(1, -1);
}

/** The thinking budget that fields of a request fix, in tokens; `max_tokens` must be larger than it. */
export function thinkingBudget(fields: Readonly<Record<string, unknown>>): number {
  const { thinking } = fields;
  const budget = isRecord(thinking) ? thinking["budget_tokens"] : undefined;
  return typeof budget === "number" && budget > 0 ? budget : 0;
}

/** Prices in US dollars for a million tokens; an absent price equals `input`. */
export interface TokenPrices {
  /** US dollars for a million tokens of the prompt that no cache had. */
  input: number;
  /** US dollars for a million tokens of the answer, thinking included. */
  output: number;
  /** Price of prompt tokens read from the provider's cache. */
  cacheRead?: number;
  /** Price of prompt tokens written to it, for a cache of five minutes. */
  cacheWrite?: number;
}

/** Facts of a model. Sizes in tokens. */
export interface AnthropicModel {
  /** Tokens of a request and its answer together. */
  contextWindow: number;
  /** The most that `max_tokens` may be. */
  maxOutputTokens: number;
  /** Absent where unknown. */
  prices?: Required<TokenPrices>;
  /** Prices of requests with more than `above` tokens of prompt, where they differ. */
  longPrompt?: { above: number; prices: Required<TokenPrices> };
  /** True for models that think by default: thinking counts against `max_tokens` too. */
  thinksByDefault?: boolean;
}

/** A price list in the usual proportions: a cache write costs 1.25 times the input, a read a tenth. */
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

/** The window of the model that a session names, in tokens; undefined where it is not known here. */
export function contextWindowOf(model: Settings["model"]): number | undefined {
  return model?.provider === "anthropic" ? knownModel(model.modelId)?.contextWindow : undefined;
}

/** Prices of a request with so many tokens of prompt; undefined where the model's are not known. */
export function pricesFor(promptTokens: number, model: AnthropicModel): Required<TokenPrices> | undefined {
  const { prices, longPrompt } = model;
  return longPrompt && promptTokens > longPrompt.above ? longPrompt.prices : prices;
}

/** Facts of a model of the catalogue; undefined for every other. A date or `-latest` at the end of its id does not matter. */
export function knownModel(id: string): AnthropicModel | undefined {
  const name = id.replace(/[-@](?:\d{8}|latest)$/, "");
  return Object.hasOwn(anthropicModels, name) ? anthropicModels[name] : undefined;
}

/**
 * The `max_tokens` of a request: what is wanted, no more than the model gives, no more than the window leaves beside
 * the prompt; 0 when it leaves nothing. Whole tokens.
 */
export function clampOutput(requested: number, modelMaxOutput: number, windowLeft: number): number {
  return Math.max(0, Math.floor(Math.min(requested, modelMaxOutput, windowLeft)));
}
