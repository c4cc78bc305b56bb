// Provider value over an SDK: its limits, its summarizer, and the readings of its answers that all SDKs share.
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  CHARS_PER_TOKEN,
  contextOfPath,
  isRecord,
  messageText,
  type Usage,
} from "@espalier/session-tree";
import {
  type Summarizer,
  type SummaryAnswer,
  type SummaryRequest,
  sdkError,
  summaryError,
  summaryPrompt,
  type TokenPrices,
  withCost,
} from "@espalier/summarizer";
import type { AnswerEvent, Provider } from "../turn/provider.ts";

/** Options of every provider other than Anthropic. */
export interface CommonOptions {
  /** Maximum number of tokens of an answer, including reasoning. Default: the session's reserve, 16,384. */
  maxTokens?: number;
  /** System prompt. Default: none. */
  system?: string;
  /** Tokens of a request and its answer. Default 128,000; a smaller window is learnt from the provider's own error. */
  contextWindow?: number;
  /** Maximum number of tokens that an answer of the model can have. Default 128,000. */
  maxOutputTokens?: number;
  /** Prices of the model. Default: none; answers then have no cost. */
  prices?: TokenPrices;
}

/** A model, as entries name it. */
type Model = Pick<Provider, "provider" | "modelId">;

/** Default context window, and default maximum length of an answer, in tokens. */
const WINDOW = 128_000;

/** Makes a provider, which is also a summarizer, from the common options and the parts that depend on an SDK. */
export function sdkProvider<Params>(
  model: Model,
  { contextWindow = WINDOW, maxOutputTokens = WINDOW, maxTokens: answerTokens, system }: CommonOptions,
  parts: Pick<Provider<Params>, "tools" | "params" | "send" | "read">,
): Provider<Params> {
  const provider: Provider<Params> = {
    ...model,
    contextWindow,
    maxOutputTokens,
    answerTokens,
    system,
    ...parts,
    params(context, options) {
      const most = Math.min(options.maxOutputTokens, maxOutputTokens);
      return parts.params(context, { ...options, maxOutputTokens: most });
    },
  };
  return { ...provider, summarizer: providerSummarizer(provider) };
}

/** Throws `bad-input` for a missing argument, such as a client in plain JavaScript. */
export function checkGiven(value: unknown, what: string, example: string): void {
  const isGiven = typeof value === "string" ? value !== "" : ["object", "function"].includes(typeof value);
  if (isGiven && value !== null) return;
  throw new EspalierError("bad-input", `A provider needs ${what}: ${example}.`);
}

/**
 * Returns the usage of an answer, with its cost when prices are known. The counts are those of a report: any value but a
 * positive number counts as 0. `prompt` includes the tokens that came from a cache, or were written to it.
 */
export function billed(
  reported: Record<"prompt" | "output" | "cacheRead", unknown> & { cacheWrite?: unknown },
  prices?: TokenPrices,
): Usage {
  const [output, cacheRead] = [count(reported.output), count(reported.cacheRead)];
  const cacheWrite = count(reported.cacheWrite);
  const input = Math.max(0, count(reported.prompt) - cacheRead - cacheWrite);
  const totalTokens = input + output + cacheRead + cacheWrite;
  return withCost({ input, output, cacheRead, cacheWrite, totalTokens }, prices);
}

const count = (value: unknown): number => (typeof value === "number" && value > 0 ? value : 0);

export const isAsyncIterable = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.asyncIterator in value;

/** Returns the error for an answer of another SDK. */
export const badAnswer = (sdk: string): EspalierError =>
  new EspalierError(
    "bad-input",
    `This is not an answer of ${sdk}: return its stream, or its whole answer, from \`send\`.`,
  );

/**
 * Returns the error in a stream or an answer, with its code and its type. Servers write errors there even after a
 * successful status.
 */
export function errorIn(answer: unknown): Error | undefined {
  const error = field(answer, "error");
  if (!error) return undefined;
  const text = field(error, "message");
  const [code, type] = [field(error, "code"), field(error, "type")];
  return Object.assign(new Error(typeof text === "string" ? text : JSON.stringify(error)), { code, type });
}

/** Returns a field of any value; undefined when the value is not an object. */
export const field = (value: unknown, name: string): unknown => (isRecord(value) ? value[name] : undefined);

/** Makes a summarizer that calls a provider, without its system prompt and tools. */
function providerSummarizer(provider: Provider): Summarizer {
  const { provider: name, modelId, contextWindow, maxOutputTokens } = provider;
  const model = { provider: name, modelId };

  async function summarize(request: SummaryRequest): Promise<SummaryAnswer> {
    const signal = request.signal ?? new AbortController().signal;
    const started = Date.now();
    let characters = 0;
    try {
      signal.throwIfAborted();
      const { system, user } = summaryPrompt(request);
      const messages = [{ role: "user" as const, content: user, timestamp: 0 }];
      const context = { ...contextOfPath([]), messages, model };
      const params = provider.params(context, { system, maxOutputTokens: request.maxOutputTokens });
      const answered = await provider.send(forText(params), signal);
      for await (const event of provider.read(answered)) {
        if (event.type === "answer") return answerOf(event.message, model, signal);
        if (event.type !== "text") continue;
        characters += event.text.length;
        const outputTokens = Math.ceil(characters / CHARS_PER_TOKEN);
        request.onProgress?.({ outputTokens, elapsedMs: Date.now() - started });
      }
    } catch (error) {
      throw sdkError(error, request.signal);
    }
    throw summaryError("connection", `The model ${modelId} ended without an answer.`);
  }

  return { name, model, contextWindow, maxOutputTokens, summarize };
}

/** Returns a request without the program's fields for tools, JSON and stop sequences, which would spoil a summary. */
function forText(params: unknown): unknown {
  if (!isRecord(params)) return params;
  const { tools, tool_choice, parallel_tool_calls, response_format, stop, text, ...others } = params;
  if (!isRecord(text)) return others;
  const { format, ...rest } = text;
  return { ...others, text: rest };
}

/** Returns the answer of a summary. Throws the error of a request that failed after its response had begun. */
function answerOf(
  message: AssistantMessage,
  model: SummaryAnswer["model"],
  signal: AbortSignal,
): SummaryAnswer {
  const { stopReason, errorMessage, usage } = message;
  if (stopReason === "error" && errorMessage !== undefined && !STOPPED.test(errorMessage))
    throw sdkError(new Error(errorMessage), signal, usage);
  return {
    text: messageText(message),
    stopReason:
      stopReason === "length" || stopReason === "toolUse" || stopReason === "stop" ? stopReason : "refusal",
    ...(usage ? { usage } : {}),
    model,
  };
}

/** Beginning of the error message of an answer that the model, or a filter of its provider, stopped. */
const STOPPED = /^The model stopped: (?:refusal|content)/;

/** Reasons of an answer that counts as failed. */
const FAILURES: ReadonlySet<unknown> = new Set(["error", "content_filter", "content-filter"]);

/**
 * Returns the event with the complete answer. `reason` is the stop reason of the provider: a limit, a failure, or a
 * normal end.
 */
export function answered(
  said: Partial<AssistantMessage> | undefined,
  { provider, modelId }: Model,
  reason: unknown,
  usage: Usage,
): AnswerEvent {
  const message: AssistantMessage = {
    role: "assistant",
    content: [],
    ...said,
    provider,
    model: modelId,
    stopReason: said?.stopReason ?? "stop",
    usage,
    timestamp: Date.now(),
  };
  if (reason === "length" || reason === "max_output_tokens") message.stopReason = "length";
  else if (FAILURES.has(reason))
    Object.assign(message, { stopReason: "error", errorMessage: `The model stopped: ${reason}.` });
  return { type: "answer", message };
}
