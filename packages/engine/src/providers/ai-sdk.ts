// Separate from ui-turn.ts: the provider value for any model of the AI SDK, also without a page.
import { fromAiSdk, toAiSdk, toolOf } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import { type AssistantMessage, isRecord, type ToolDefinition } from "@espalier/session-tree";
import type { TokenPrices } from "@espalier/summarizer";
import type { LanguageModel, ModelMessage, ToolSet } from "ai";
import type { AnswerEvent, Provider } from "../turn/provider.ts";
import {
  answered,
  badAnswer,
  billed,
  type CommonOptions,
  checkGiven,
  field,
  isAsyncIterable,
  sdkProvider,
} from "./sdk-provider.ts";

export type { TokenPrices };

/** Options of each request. */
export interface AiSdkProviderOptions extends CommonOptions {
  /** Tools by name. Their `execute` is not called: the session asks your program, so that each result is recorded. */
  tools?: ToolSet;
  /**
   * The provider's name in entries. Default: the first word of the name in the model: `openai` for `openai.responses`.
   */
  provider?: string;
}

/** A request for `streamText` and `generateText`. */
export interface AiSdkParams {
  model: LanguageModel;
  system?: string;
  messages: ModelMessage[];
  tools?: ToolSet;
  maxOutputTokens: number;
}

/**
 * Loads the AI SDK, an optional peer.
 *
 * @throws EspalierError `bad-input` when the package `ai` is not installed
 */
export const loadAiSdk = (): Promise<typeof import("ai")> =>
  import("ai").catch((cause: unknown) => {
    throw new EspalierError("bad-input", "The AI SDK needs the package ai: npm install ai", { cause });
  });

/** Makes a provider value of a model of the AI SDK: any model that `streamText` accepts. */
export function aiSdk(
  languageModel: LanguageModel,
  options: AiSdkProviderOptions = {},
): Provider<AiSdkParams> {
  checkGiven(languageModel, "a model of the AI SDK", 'aiSdk(anthropic("claude-sonnet-4-5"))');
  const { tools = {}, prices } = options;
  const named = modelOf(languageModel);
  const model = { ...named, provider: options.provider ?? named.provider };
  const withoutCode = Object.fromEntries(
    Object.entries(tools).map(([name, { execute: _, ...tool }]) => [name, tool]),
  ) as ToolSet;
  return sdkProvider<AiSdkParams>(model, options, {
    tools: Object.entries(tools).map(definitionOf),
    params(context, { system, tools: definitions, maxOutputTokens }) {
      const request = toAiSdk(context, { model, ...(definitions ? { tools: definitions } : {}) });
      const given = (request.tools ?? []).map(
        ({ name, ...tool }) => [name, withoutCode[name] ?? tool] as const,
      );
      return {
        model: languageModel,
        ...(system === undefined ? {} : { system }),
        messages: request.messages as ModelMessage[],
        ...(given.length > 0 ? { tools: Object.fromEntries(given) as ToolSet } : {}),
        maxOutputTokens,
      };
    },
    async send(params, abortSignal) {
      const { streamText } = await loadAiSdk();
      // Errors come in the stream; without `onError` the SDK also prints them.
      return streamText({ ...params, abortSignal, onError: () => {} });
    },
    async *read(answer) {
      const stream = field(answer, "fullStream");
      if (isAsyncIterable(stream)) yield* readParts(stream);
      const response = await field(answer, "response");
      const messages = field(response, "messages");
      if (!Array.isArray(messages)) throw badAnswer("ai");
      // The SDK puts results before the answer: of calls that the user denied.
      const said = fromAiSdk(messages, { model }).messages.find(({ role }) => role === "assistant") as
        | AssistantMessage
        | undefined;
      const usage = await field(answer, "usage");
      const counts = {
        prompt: field(usage, "inputTokens"),
        output: field(usage, "outputTokens"),
        cacheRead: field(usage, "cachedInputTokens"),
        cacheWrite: field(field(usage, "inputTokenDetails"), "cacheWriteTokens"),
      };
      // In its messages, the SDK replaces an input that is not JSON by an empty object, which could be a valid input.
      const calls = await field(answer, "toolCalls");
      for (const call of Array.isArray(calls) ? calls : []) {
        const input = field(call, "input");
        if (field(call, "invalid") !== true || isRecord(input)) continue;
        for (const block of said?.content ?? [])
          if (block.type === "toolCall" && block.id === field(call, "toolCallId"))
            block.arguments = { value: input };
      }
      yield answered(said, model, await field(answer, "finishReason"), billed(counts, prices));
    },
  });
}

/**
 * Returns provider and model. The provider is the first word of the model's provider name: `openai` for
 * `openai.responses`. For a gateway, it is the part of the model's id before the `/`.
 */
function modelOf(model: LanguageModel): { provider: string; modelId: string } {
  const { provider, modelId } = typeof model === "string" ? { provider: "gateway", modelId: model } : model;
  const [first = provider] = provider.split(".");
  const [behind] = modelId.split("/");
  return { provider: first === "gateway" && modelId.includes("/") ? behind! : first, modelId };
}

/**
 * Converts a tool to the definition that its size is estimated from. A validator without a JSON Schema counts zero
 * tokens; the SDK sends it whole.
 */
function definitionOf([name, { description, inputSchema }]: [string, ToolSet[string]]): ToolDefinition {
  const schema = field(inputSchema, "jsonSchema");
  return toolOf(name, description, isRecord(schema) && !("then" in schema) ? schema : { type: "object" });
}

async function* readParts(parts: AsyncIterable<unknown>): AsyncGenerator<AnswerEvent> {
  for await (const part of parts) {
    const type = field(part, "type");
    const text = field(part, "text");
    if (type === "error") throw field(part, "error");
    if (typeof text !== "string" || text === "") continue;
    if (type === "text-delta") yield { type: "text", text };
    if (type === "reasoning-delta") yield { type: "thinking", text };
  }
}
