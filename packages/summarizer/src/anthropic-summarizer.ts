import type Anthropic from "@anthropic-ai/sdk";
import {
  CHARS_PER_TOKEN,
  type ContextMessage,
  isRecord,
  messageText,
  toolCalls,
} from "@espalier/session-tree";
import { anthropicModel, type ReportedUsage, toUsage } from "./anthropic-models.ts";
import { promptSize, RESERVE } from "./chunks.ts";
import { fetchWithShortWaits, sdkError } from "./retry.ts";
import {
  type Summarizer,
  type SummaryAnswer,
  type SummaryRequest,
  type SummaryStopReason,
  summaryError,
  summaryPrompt,
  summaryTask,
  throwIfAborted,
} from "./summarizer.ts";
import { upperBoundEstimator } from "./tokens.ts";
import { renderMessage } from "./transcript.ts";

/** Default model of summaries: a window of a million tokens at a moderate price. */
export const DEFAULT_ANTHROPIC_MODEL = "claude-sonnet-5-5";

/** Access to Claude. Every field is optional when `ANTHROPIC_API_KEY` is set. */
export interface AnthropicAccess {
  /**
   * A client of `@anthropic-ai/sdk`, or a function that makes one. Default: a client is made of `apiKey` and `baseURL`
   * for the first request.
   */
  client?: Anthropic | (() => Promise<Anthropic>);
  /** API key. When it is absent or empty, the SDK reads `ANTHROPIC_API_KEY`. */
  apiKey?: string;
  /** Base address. When it is absent or empty, the SDK reads `ANTHROPIC_BASE_URL`. */
  baseURL?: string;
}

/** Returns a function that returns the client; the client is made, and its SDK loaded, at the first call. */
export function anthropicClient({ client, apiKey, baseURL }: AnthropicAccess): () => Promise<Anthropic> {
  let loading: Promise<Anthropic> | undefined;
  const load = async () => {
    const { default: Client } = await import("@anthropic-ai/sdk").catch((cause: unknown) => {
      const message = "Claude needs the package @anthropic-ai/sdk: npm install @anthropic-ai/sdk";
      throw summaryError("failed", message, { cause });
    });
    return new Client({ ...(apiKey && { apiKey }), ...(baseURL && { baseURL }), fetch: fetchWithShortWaits });
  };
  if (typeof client === "function") return client;
  return () => (loading ??= client ? Promise.resolve(client) : load());
}

/** Options of a summarizer by Claude. Every field is optional when `ANTHROPIC_API_KEY` is set. */
export interface AnthropicSummarizerOptions extends AnthropicAccess {
  /** Name of the model. Default: {@link DEFAULT_ANTHROPIC_MODEL}. */
  model?: string;
  /** Window in tokens. Default: from the catalogue of models; 200,000 for a model that is not in it. */
  contextWindow?: number;
  /** Maximum number of tokens of an answer. Default: from the catalogue; 8,192 for a model that is not in it. */
  maxOutputTokens?: number;
  /**
   * Tokens that are added to `max_tokens` for thinking, which counts toward it. Default: the budget in `parameters`,
   * else 16,000 for models that think by default, and 0 for others.
   */
  thinkingTokens?: number;
  /** Returns the last request of the session, which can be extended; called for every summary. */
  lastRequest?: () => LastRequest | undefined;
  /**
   * Form of the request. `extend`: the last request with one more instruction, which the provider's cache serves.
   * `standalone`: the transcript. `auto`: extends for whole summaries when there is a last request to this model and it
   * fits. Parts of a history and their combination are always standalone.
   */
  ask?: "auto" | "extend" | "standalone";
  /**
   * True: asks the provider for the exact size of a request when an upper bound does not decide if it fits. Default
   * true.
   */
  countTokens?: boolean;
  /** Additional fields of standalone requests, such as `thinking` or `output_config`. */
  parameters?: Readonly<Record<string, unknown>>;
  /** Number of retries inside the SDK. Default 0, because `withRetry` retries. */
  maxRetries?: number;
  /** Time limit of one request in milliseconds. Default: the SDK's ten minutes. */
  timeoutMs?: number;
}

/** A summarizer by Claude. */
export interface AnthropicSummarizer extends Summarizer {
  /** Returns the exact size of the request that would be sent, as the provider counts it. */
  countTokens(request: SummaryRequest): Promise<number>;
  /**
   * Returns the size of a prompt like {@link Summarizer}: of an extended request from the provider's last count, else
   * by a new count. Undefined when counting is off or fails, or the body has more than 24 MB. Throws after an abort.
   */
  promptTokens(request: SummaryRequest): Promise<number | undefined>;
}

/**
 * Makes a summarizer by Claude with `@anthropic-ai/sdk`, which is loaded with the first request. Answers are streamed.
 */
export function anthropicSummarizer(options: AnthropicSummarizerOptions = {}): AnthropicSummarizer {
  const modelId = options.model ?? DEFAULT_ANTHROPIC_MODEL;
  const model = { provider: "anthropic", modelId };
  const known = anthropicModel(modelId);
  const plan: PlanOptions = {
    model: modelId,
    contextWindow: options.contextWindow ?? known.contextWindow,
    maxOutputTokens: options.maxOutputTokens ?? known.maxOutputTokens,
    thinkingTokens:
      options.thinkingTokens ??
      (thinkingBudget(options.parameters ?? {}) || (known.thinksByDefault ? DEFAULT_THINKING : 0)),
    ask: options.ask ?? "auto",
    parameters: options.parameters ?? {},
    ...(options.lastRequest && { lastRequest: options.lastRequest }),
  };
  // A request that was counted is usually sent next, and must not be counted again.
  let lastCount = { prompt: "", tokens: 0 };
  const client = anthropicClient(options);

  const settingsOf = ({ signal }: SummaryRequest) => ({
    maxRetries: options.maxRetries ?? 0,
    ...(signal && { signal }),
    ...(options.timeoutMs !== undefined && { timeout: options.timeoutMs }),
  });

  async function countTokens(request: SummaryRequest): Promise<number> {
    const { body: planned } = planAnthropicRequest(request, plan, 0);
    const body = Object.fromEntries(Object.entries(planned).filter(([field]) => COUNTED_FIELDS.has(field)));
    try {
      const { messages } = await client();
      const params = body as unknown as Anthropic.MessageCountTokensParams;
      return (await messages.countTokens(params, settingsOf(request))).input_tokens;
    } catch (thrown) {
      throw sdkError(thrown, request.signal);
    }
  }

  async function promptTokens(request: SummaryRequest): Promise<number | undefined> {
    const { body, extendsTokens } = planAnthropicRequest(request, plan, 0);
    if (extendsTokens !== undefined) return extendsTokens;
    if (options.countTokens === false || sizeOf(body) > LARGEST_COUNTED) return undefined;
    const { system, user } = summaryPrompt(request);
    const prompt = `${system}\n${user}`;
    if (lastCount.prompt === prompt) return lastCount.tokens;
    try {
      const tokens = await countTokens(request);
      lastCount = { prompt, tokens };
      return tokens;
    } catch (thrown) {
      // Some servers with this API do not count tokens; then the upper bound decides.
      if (request.signal?.aborted) throw thrown;
      return undefined;
    }
  }

  async function summarize(request: SummaryRequest): Promise<SummaryAnswer> {
    throwIfAborted(request.signal);
    const startedAt = Date.now();
    const isLarge = planAnthropicRequest(request, plan).shortBy > 0;
    const counted = isLarge ? await promptTokens(request) : undefined;
    const { body, shortBy } = planAnthropicRequest(request, plan, counted);
    if (shortBy > 0) {
      throw summaryError(
        "too-long",
        `The prompt and its answer exceed the window of ${modelId} by up to ${shortBy} tokens; shorten the request or use a model with a larger window.`,
      );
    }
    let stream: ReturnType<Anthropic["messages"]["stream"]> | undefined;
    try {
      const { messages } = await client();
      throwIfAborted(request.signal);
      stream = messages.stream(body as unknown as Anthropic.MessageStreamParams, settingsOf(request));
      let characters = 0;
      stream.on("text", (delta: string) => {
        characters += delta.length;
        const outputTokens = Math.ceil(characters / CHARS_PER_TOKEN);
        request.onProgress?.({ outputTokens, elapsedMs: Date.now() - startedAt });
      });
      const { content, stop_reason, usage }: Anthropic.Message = await stream.finalMessage();
      return {
        text: content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n"),
        stopReason: STOP_REASONS[stop_reason ?? ""] ?? "error",
        usage: toUsage(usage, known),
        model,
      };
    } catch (thrown) {
      const reported: ReportedUsage | undefined = stream?.currentMessage?.usage;
      throw sdkError(thrown, request.signal, reported && toUsage(reported, known));
    }
  }

  const { contextWindow, maxOutputTokens } = plan;
  const withModel = (other: string) => anthropicSummarizer({ client, model: other });
  const sizes = { contextWindow, maxOutputTokens, countTokens, promptTokens };
  return { name: "anthropic", model, ...sizes, summarize, withModel };
}

/** Tokens for the thinking of models that think by default. */
const DEFAULT_THINKING = 16_000;

/** Maximum number of bytes of a request body that is counted; the API accepts 32 MB. */
const LARGEST_COUNTED = 24_000_000;

/** Fields that the counting endpoint accepts; it refuses all others. */
const COUNTED_FIELDS = new Set([
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
]);
const sizeOf = (body: SentBody) => upperBoundEstimator.text(JSON.stringify(body));

const STOP_REASONS: Record<string, SummaryStopReason> = {
  end_turn: "stop",
  stop_sequence: "stop",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  tool_use: "toolUse",
  refusal: "refusal",
};

/** Options of planning a request. Sizes in tokens. */
type PlanOptions = Required<Omit<AnthropicSummarizerOptions, keyof AnthropicAccess | Unplanned>> &
  Pick<AnthropicSummarizerOptions, "lastRequest">;
type Unplanned = "lastRequest" | "countTokens" | "maxRetries" | "timeoutMs";

/** A request ready to send. */
interface PlannedRequest {
  body: MessagesBody;
  /** Tokens by which the prompt, fixed thinking and the shortest answer may exceed the window; 0 when they fit. */
  shortBy: number;
  /** Size of the prompt that is extended, from the provider's own count; absent for a standalone request. */
  extendsTokens?: number;
}

/** Minimum room for an answer in tokens: a window that leaves less is too small (unless less was requested). */
const LEAST_ANSWER = 256;

/**
 * Minimum room for the answer to an extended request: a good summary must fit, because a standalone request is the
 * alternative.
 */
const LEAST_EXTENDING_ANSWER = 4_096;

/** Purposes whose messages are in the session's last request. */
const EXTENDING = new Set(["history", "turn-prefix", "branch"]);

/**
 * Chooses the form of the request and the maximum length of the answer. `promptTokens` is the size of a standalone
 * prompt if it was counted; otherwise its upper bound is used, as when requests are sized.
 */
function planAnthropicRequest(
  request: SummaryRequest,
  options: PlanOptions,
  promptTokens?: number,
): PlannedRequest {
  const { ask, model, parameters, thinkingTokens } = options;
  const last = ask === "standalone" || !EXTENDING.has(request.purpose) ? undefined : options.lastRequest?.();
  if (last && canExtend(last, model) && holdsMessages(last, request)) {
    const instruction = extendingInstruction(request);
    const known = last.inputTokens ?? sizeOf(last.body);
    const size = known + upperBoundEstimator.text(instruction) + RESERVE;
    const thinking = thinkingBudget(last.body) || thinkingTokens;
    const body = extendedBody(last, instruction, model);
    const extended = withOutput(request, body, size, thinking, LEAST_EXTENDING_ANSWER, options);
    if (ask === "extend" || extended.shortBy === 0) return { ...extended, extendsTokens: size };
  }
  const body = { ...standaloneBody(request, model), ...parameters };
  const size = (promptTokens ?? promptSize(request, upperBoundEstimator)) + RESERVE;
  return withOutput(request, body, size, thinkingTokens, LEAST_ANSWER, options);
}

function withOutput(
  request: SummaryRequest,
  body: MessagesBody,
  promptTokens: number,
  thinkingTokens: number,
  leastAnswer: number,
  options: PlanOptions,
): PlannedRequest {
  const left = options.contextWindow - promptTokens;
  const maxTokens = clampOutput(request.maxOutputTokens + thinkingTokens, options.maxOutputTokens, left);
  // Only thinking that the body sets needs room here; a model that thinks by default uses the room that is left.
  const shortest = Math.min(request.maxOutputTokens, leastAnswer) + thinkingBudget(body);
  const least = Math.min(shortest, options.maxOutputTokens);
  return {
    body: { ...body, max_tokens: Math.max(1, maxTokens) },
    shortBy: Math.max(0, Math.ceil(least - left)),
  };
}

/** A Messages API request: the fields that this package reads, and all others unchanged. */
interface MessagesBody extends SentBody {
  model: string;
  /** 1 until the room for the answer is known. */
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

/** Last request of a session, which its provider still has in its cache. */
export interface LastRequest {
  /** Body as it was sent, including cache markers. */
  body: SentBody;
  /**
   * Tokens of its prompt as the provider counted them (input, cache reads and writes). Absent: an upper bound is used.
   */
  inputTokens?: number;
}

/**
 * Returns the body of a standalone request: the transcript, then the task. It has no cache markers, because no later
 * request shares its beginning.
 */
function standaloneBody(request: SummaryRequest, model: string): MessagesBody {
  const { system, user } = summaryPrompt(request);
  return { model, max_tokens: 1, system, messages: [{ role: "user", content: user }] };
}

/**
 * Returns the last request with one more instruction. System prompt, tools, messages, thinking and the choice of tools
 * are unchanged byte for byte, because a cache is only used up to the first difference. A stop sequence, which could cut
 * the summary, is left out: the cache does not depend on it.
 */
function extendedBody(last: LastRequest, text: string, model: string): MessagesBody {
  const { stop_sequences, ...body } = last.body;
  const instruction = { role: "user", content: [{ type: "text", text }] };
  return { ...body, model, max_tokens: 1, messages: [...body.messages, instruction] };
}

/** Returns the instruction that asks within a running conversation for a summary of a part of it. */
function extendingInstruction(request: SummaryRequest): string {
  return [
    "The conversation stops here. This message is not part of it: it asks for a summary of what stands above. Do not continue the work, do not answer anything above, and do not call tools; answer with the text of the summary alone, and copy paths, identifiers, commands, numbers and error messages exactly.",
    ...partToSummarize(request),
    ...summaryTask(request),
  ].join("\n\n");
}

/**
 * Identifies the part to summarize by the beginnings of its first and last message: the conversation may have further
 * messages.
 */
function partToSummarize(request: SummaryRequest): string[] {
  const limits = { toolResultLimit: 200, textLimit: 200 };
  const shown = request.messages.map((message) => renderMessage(message, limits).text);
  const said = shown.filter((text) => text !== "");
  if (said.length === 0) return [];
  return [
    "Summarise only the part of the conversation that begins and ends with the two messages below (both belong to it; long texts are shortened here, and `<` is written `&lt;`). What follows that part stays in the conversation.",
    `<begins-with>\n${said[0]}\n</begins-with>`,
    `<ends-with>\n${said.at(-1)}\n</ends-with>`,
  ];
}

/**
 * Returns whether a last request can be extended. It cannot when it ends in an answer with open tool calls, which their
 * results must follow, when it went to another model, whose cache is separate, or when it forces a call or JSON.
 */
function canExtend(last: LastRequest, model: string): boolean {
  const { messages } = last.body;
  if (last.body.model !== undefined && last.body.model !== model) return false;
  if (allowsNoText(last.body)) return false;
  const end: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  if (!isRecord(end)) return false;
  const blocks = Array.isArray(end["content"]) ? end["content"] : [];
  return !blocks.some((block) => isRecord(block) && block["type"] === "tool_use");
}

/** Returns whether a request forces a call of a tool, or an answer in JSON. */
function allowsNoText({ tool_choice, output_config, output_format }: SentBody): boolean {
  const choice = isRecord(tool_choice) ? tool_choice["type"] : undefined;
  const format = output_format ?? (isRecord(output_config) ? output_config["format"] : undefined);
  return choice === "any" || choice === "tool" || isRecord(format);
}

/**
 * Returns whether a last request has the messages to summarize, by their ends and by the texts of users and tools, in
 * this order. Neither the answer to the request nor messages of other branches are in the request.
 */
function holdsMessages({ body }: LastRequest, { messages }: SummaryRequest): boolean {
  const sent = JSON.stringify(body.messages);
  let at = 0;
  for (const [place, message] of messages.entries()) {
    const isEnd = place === 0 || place === messages.length - 1;
    // Failed answers in between are in no request.
    if (!isEnd && message.role !== "user" && message.role !== "toolResult") continue;
    const mark = markOf(message);
    const found = sent.indexOf(mark, at);
    if (found < 0) return false;
    at = found + mark.length;
  }
  return true;
}

/** Number of characters by which a message is recognized. */
const MARK = 200;

/** Returns the beginning in JSON of a message's text, or else of its first call; empty for images alone. */
function markOf(message: ContextMessage): string {
  const text = messageText(message).trim() || (toolCalls(message)[0]?.id ?? "");
  // A lone surrogate would be written as an escape.
  const whole = text.slice(0, MARK).replace(/[\ud800-\udbff]$/, "");
  return JSON.stringify(whole).slice(1, -1);
}

/** Returns the thinking budget that a request sets, in tokens, and 0 when it sets none; `max_tokens` must be larger. */
export function thinkingBudget(fields: Readonly<Record<string, unknown>>): number {
  const { thinking } = fields;
  const budget = isRecord(thinking) ? thinking["budget_tokens"] : undefined;
  return typeof budget === "number" && budget > 0 ? budget : 0;
}

/**
 * Returns the `max_tokens` of a request: the requested number, limited by the model and by the room that the prompt
 * leaves in the window; 0 when it leaves none. A whole number.
 */
export function clampOutput(requested: number, modelMaxOutput: number, windowLeft: number): number {
  return Math.max(0, Math.floor(Math.min(requested, modelMaxOutput, windowLeft)));
}
