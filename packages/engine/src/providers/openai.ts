// Separate from named.ts: it is a door of the package.
// Provider values for OpenAI, and for every server with its Chat Completions API.
import { fromOpenaiChat, fromOpenaiResponses, nativeFormats, toolOf } from "@espalier/interop";
import { type AssistantMessage, buildRequest, isRecord } from "@espalier/session-tree";
import type { TokenPrices } from "@espalier/summarizer";
import type OpenAI from "openai";
import type { AnswerEvent, Provider } from "../turn/provider.ts";
import {
  answered,
  badAnswer,
  billed,
  type CommonOptions,
  checkGiven,
  errorIn,
  field,
  isAsyncIterable,
  sdkProvider,
} from "./sdk-provider.ts";

/** The model, and options of each request. */
interface ModelOptions<Tool> extends CommonOptions {
  /** Name of the model on the server. */
  model: string;
  /** Tools in the SDK's types. Default: none. */
  tools?: readonly Tool[];
  /** The server's name in entries. Default `openai`. */
  provider?: string;
  /**
   * True for a server that is not OpenAI's own and limits answers by `max_tokens`; only for Chat Completions. Default:
   * decided by the client's address; false for a function that makes a client.
   */
  isCompatible?: boolean;
}

/** Options of {@link openai}. */
export interface OpenaiOptions extends ModelOptions<OpenAI.ChatCompletionTool> {
  /** More fields of the request, such as `temperature`. */
  parameters?: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>;
}

/** Options of {@link openaiResponses}. */
export interface OpenaiResponsesOptions extends ModelOptions<OpenAI.Responses.Tool> {
  /** More fields of the request, such as `reasoning`. */
  parameters?: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>;
}

export type { TokenPrices };

/** A client of the SDK, for any address; or a function that makes one, called before the first request. */
export type OpenaiClient = OpenAI | (() => Promise<OpenAI>);

/**
 * Makes a provider value for Chat Completions by the package `openai`: of OpenAI itself, or of any server with this API
 * (Ollama, llama.cpp, vLLM, OpenRouter), set by the `baseURL` of the client.
 */
export function openai(
  client: OpenaiClient,
  options: OpenaiOptions,
): Provider<OpenAI.ChatCompletionCreateParamsNonStreaming> {
  const { model, clientOf } = reached(client, options);
  const { tools = [], parameters = {}, prices } = options;
  const named = tools.map((tool) =>
    tool.type === "function" ? tool.function : { parameters: undefined, ...tool.custom },
  );
  const own = new Map(tools.map((tool, at) => [named[at]?.name, tool]));
  return sdkProvider<OpenAI.ChatCompletionCreateParamsNonStreaming>(model, options, {
    tools: named.map(({ name, description, parameters }) => toolOf(name, description, parameters)),
    params(context, { system, tools: definitions, maxOutputTokens }) {
      const format = nativeFormats.openai;
      const request = buildRequest(context, { format, model, system, tools: definitions });
      return {
        ...parameters,
        ...request,
        ...(request.tools && { tools: request.tools.map((tool) => withOwn(tool, own)) }),
        model: options.model,
        ...limited(client, options.isCompatible, maxOutputTokens),
      } as OpenAI.ChatCompletionCreateParamsNonStreaming;
    },
    async send(params, signal) {
      const streamed = { ...params, stream: true, stream_options: { include_usage: true } } as const;
      return (await clientOf()).chat.completions.create(streamed, { signal });
    },
    async *read(answer) {
      const whole = isAsyncIterable(answer) ? yield* readChunks(answer) : answer;
      const [choice] = listOf(field(whole, "choices"));
      if (choice === undefined) throw errorIn(whole) ?? badAnswer("openai");
      const message = { ...(field(choice, "message") as object), role: "assistant" };
      const [said] = fromOpenaiChat([message], { model }).messages as AssistantMessage[];
      yield answered(said, model, field(choice, "finish_reason"), usageOf(whole, prices));
    },
  });
}

/**
 * Makes a provider value for the Responses API by the package `openai`. The server stores nothing: models that reason
 * return their reasoning encrypted.
 */
export function openaiResponses(
  client: OpenaiClient,
  options: OpenaiResponsesOptions,
): Provider<OpenAI.Responses.ResponseCreateParamsNonStreaming> {
  const { model, clientOf } = reached(client, options);
  const { tools = [], parameters = {}, prices } = options;
  const own = new Map(tools.map((tool) => ["name" in tool ? tool.name : "", tool]));
  const hosted = tools.filter(({ type }) => type !== "function");
  return sdkProvider<OpenAI.Responses.ResponseCreateParamsNonStreaming>(model, options, {
    tools: tools.flatMap((tool) =>
      tool.type === "function" ? [toolOf(tool.name, tool.description, tool.parameters)] : [],
    ),
    params(context, { system, tools: definitions, maxOutputTokens }) {
      const format = nativeFormats["openai-responses"];
      const request = buildRequest(context, { format, model, system, tools: definitions });
      const { tools: made = [] } = request;
      const named = made.map((tool) => ({ ...tool, ...own.get(tool.name), parameters: tool.parameters }));
      return {
        // Models without reasoning refuse a request for it.
        ...(REASONS.test(options.model) ? { include: ["reasoning.encrypted_content"] } : {}),
        ...parameters,
        ...request,
        ...(named.length + hosted.length > 0 && { tools: [...named, ...hosted] }),
        model: options.model,
        store: false,
        max_output_tokens: maxOutputTokens,
      } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    },
    async send(params, signal) {
      return (await clientOf()).responses.create({ ...params, stream: true }, { signal });
    },
    async *read(answer) {
      const whole = isAsyncIterable(answer) ? yield* readResponse(answer) : answer;
      const output = field(whole, "output");
      if (!Array.isArray(output)) throw errorIn(whole) ?? badAnswer("openai");
      const [said] = fromOpenaiResponses({ output }, { model }).messages as AssistantMessage[];
      const status = field(whole, "status");
      const reason = field(field(whole, "incomplete_details"), "reason");
      const usage = usageOf(whole, prices);
      if (FAILED.has(status)) {
        const errorMessage = failureOf(field(whole, "error"));
        yield answered({ ...said, stopReason: "error", errorMessage }, model, undefined, usage);
      } else yield answered(said, model, reason ?? (status === "incomplete" ? "length" : undefined), usage);
    },
  });
}

/** Returns the model and its client. Throws `bad-input` for a missing argument. */
function reached(client: OpenaiClient, options: Pick<ModelOptions<unknown>, "model" | "provider">) {
  checkGiven(client, "a client of the package openai", 'openai(new OpenAI(), { model: "gpt-5" })');
  checkGiven(options?.model, "the name of a model", 'openai(client, { model: "gpt-5" })');
  const { provider = "openai", model: modelId } = options;
  return {
    model: { provider, modelId },
    clientOf: typeof client === "function" ? client : async () => client,
  };
}

/** States of a response that is not an answer. */
const FAILED: ReadonlySet<unknown> = new Set(["failed", "cancelled"]);

const failureOf = (error: unknown): string =>
  [field(error, "code"), field(error, "message")].filter(Boolean).join(": ") ||
  "The server failed, and gave no reason.";

/** Names of models that return encrypted reasoning. */
const REASONS = /^(o\d|gpt-[5-9]|codex)/;

/** Addresses of OpenAI and Azure. */
export const OPENAI_ADDRESS = /\b(openai\.com|azure\.com)\b/;

/**
 * Returns the field that limits an answer: `max_completion_tokens` for OpenAI and Azure, whose newer models refuse
 * `max_tokens`, the only field that other servers accept.
 */
function limited(client: OpenaiClient, isCompatible: boolean | undefined, tokens: number) {
  const isOther = isCompatible ?? (typeof client !== "function" && !OPENAI_ADDRESS.test(client.baseURL));
  return isOther ? { max_tokens: tokens } : { max_completion_tokens: tokens };
}

/** Returns a tool with the fields that only this API knows. A custom tool has another shape and is sent as it is. */
function withOwn(
  tool: OpenAI.ChatCompletionFunctionTool,
  tools: ReadonlyMap<string | undefined, OpenAI.ChatCompletionTool>,
): OpenAI.ChatCompletionTool {
  const own = tools.get(tool.function.name);
  return own?.type === "custom" ? own : { ...own, ...tool, function: { ...own?.function, ...tool.function } };
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

async function* readChunks(chunks: AsyncIterable<unknown>): AsyncGenerator<AnswerEvent, object> {
  const texts: Record<string, string> = {};
  const calls: CallPiece[] = [];
  let usage: unknown;
  let finish_reason: unknown;
  for await (const chunk of chunks) {
    const error = errorIn(chunk);
    if (error) throw error;
    usage = field(chunk, "usage") ?? usage;
    const [choice] = listOf(field(chunk, "choices"));
    const delta = field(choice, "delta");
    finish_reason = field(choice, "finish_reason") ?? finish_reason;
    for (const name of ["content", "refusal", "reasoning_content", "reasoning"]) {
      const text = textOf(field(delta, name));
      if (text === "") continue;
      texts[name] = (texts[name] ?? "") + text;
      if (name !== "refusal") yield { type: name === "content" ? "text" : "thinking", text };
    }
    for (const piece of listOf(field(delta, "tool_calls")).map(callPiece)) {
      const call = calls.findLast(({ index }) => piece.index === undefined || index === piece.index);
      if (!call || beginsCall(piece, call)) calls.push(piece);
      else {
        call.id ||= piece.id;
        call.name ||= piece.name;
        call.text += piece.text;
      }
    }
  }
  if (finish_reason === undefined) throw new Error("The stream ended before its answer.");
  const tool_calls = calls.map(({ id, type, name, text }) => ({
    id,
    type,
    [type]: { name, [INPUTS[type]]: text },
  }));
  return { choices: [{ message: { content: null, ...texts, tool_calls }, finish_reason }], usage };
}

/** Field that has the input of a call, by the type of the call. */
const INPUTS = { function: "arguments", custom: "input" } as const;

type CallPiece = ReturnType<typeof callPiece>;

/** Reads a piece of a call. Arguments of some servers are an object, which becomes its JSON. */
function callPiece(piece: unknown) {
  const type: keyof typeof INPUTS = field(piece, "custom") === undefined ? "function" : "custom";
  const called = field(piece, type);
  const given = field(called, INPUTS[type]);
  const index = field(piece, "index");
  return {
    index: typeof index === "number" ? index : undefined,
    id: textOf(field(piece, "id")),
    type,
    name: textOf(field(called, "name")),
    text: isRecord(given) ? JSON.stringify(given) : textOf(given),
  };
}

/**
 * Returns whether a piece begins a call, and does not continue the last one with its index. Some servers send no index,
 * some the same index for all calls, and some a new id in each piece: only a piece with a name begins a call.
 */
function beginsCall({ index, id, name }: CallPiece, last: CallPiece): boolean {
  const hasOtherId = id !== "" && last.id !== "" && id !== last.id;
  return name !== "" && (index === undefined || hasOtherId);
}

async function* readResponse(events: AsyncIterable<unknown>): AsyncGenerator<AnswerEvent, unknown> {
  for await (const event of events) {
    const type = field(event, "type");
    const delta = field(event, "delta");
    if (type === "error") throw errorIn({ error: event }) ?? new Error("The stream failed.");
    if (type === "response.completed" || type === "response.incomplete" || type === "response.failed")
      return field(event, "response");
    if (typeof delta !== "string") continue;
    if (type === "response.output_text.delta") yield { type: "text", text: delta };
    if (type === "response.reasoning_summary_text.delta" || type === "response.reasoning_text.delta")
      yield { type: "thinking", text: delta };
  }
  throw new Error("The stream ended before its answer.");
}

/** Returns the usage of an answer. Each of the two APIs has its own words for the same counts. */
function usageOf(answer: unknown, prices: TokenPrices | undefined) {
  const usage = field(answer, "usage");
  const prompt = (name: string) => field(usage, `prompt_${name}`) ?? field(usage, `input_${name}`);
  const output = field(usage, "completion_tokens") ?? field(usage, "output_tokens");
  const cacheRead = field(prompt("tokens_details"), "cached_tokens");
  return billed({ prompt: prompt("tokens"), output, cacheRead }, prices);
}
