// Separate from named.ts: it is a door of the package.
// Provider value for Claude.
import type Anthropic from "@anthropic-ai/sdk";
import { fromAnthropic, nativeFormats, toolOf } from "@espalier/interop";
import { jsonText } from "@espalier/jsonl-stream";
import {
  type AnthropicRequest,
  type AssistantMessage,
  buildRequest,
  isRecord,
  parsedJson,
  RequestWriter,
} from "@espalier/session-tree";
import {
  anthropicSummarizer,
  DEFAULT_ANTHROPIC_MODEL,
  anthropicModel as knownModel,
  type LastRequest,
  thinkingBudget,
  toUsage,
} from "@espalier/summarizer";
import type { AnswerEvent, Provider } from "../turn/provider.ts";
import { answered, badAnswer, checkGiven, errorIn, isAsyncIterable } from "./sdk-provider.ts";

/** The model, and options of each request. */
export interface AnthropicOptions {
  /** Name of a Claude model. Default {@link DEFAULT_ANTHROPIC_MODEL}. */
  model?: string;
  /** Maximum number of tokens of an answer, without thinking. Default: the session's reserve, 16,384. */
  maxTokens?: number;
  /** System prompt. Default: none. */
  system?: string;
  /** Tools in the SDK's types: those that your program runs, and those that Anthropic runs. Default: none. */
  tools?: readonly Anthropic.ToolUnion[];
  /** Window in tokens. Default: from the catalogue of models; 200,000 for a model that is not in it. */
  contextWindow?: number;
  /**
   * More fields of the request, such as `thinking`. A thinking budget is added to the answer's tokens, and the window
   * is reduced by it.
   */
  parameters?: Partial<Anthropic.MessageCreateParamsNonStreaming>;
}

/** A request for `client.messages.stream`, and for `client.messages.create`. */
export type AnthropicParams = Anthropic.MessageCreateParamsNonStreaming;

/**
 * Makes a provider value of a Claude model for `@anthropic-ai/sdk`. A request has cache marks at its last user turn, at
 * the last turn that the previous request also had, and at the end of system prompt and tools.
 *
 * @param client the client, of any cloud; or a function that makes one, called before the first request
 */
export function anthropic(
  client: Anthropic | (() => Promise<Anthropic>),
  options: AnthropicOptions = {},
): Provider<AnthropicParams> {
  checkGiven(client, "a client of @anthropic-ai/sdk", "anthropic(new Anthropic(), { … })");
  const { model: modelId = DEFAULT_ANTHROPIC_MODEL, maxTokens, tools = [], parameters = {} } = options;
  const known = knownModel(modelId);
  const thinkingTokens = thinkingBudget(parameters as Record<string, unknown>);
  const model = { provider: "anthropic", modelId };
  const writer = new RequestWriter();
  const clientOf = typeof client === "function" ? client : async () => client;
  let asked: AnthropicParams | undefined;
  let lastMessages: AnthropicRequest["messages"] | undefined;
  let lastRequest: LastRequest | undefined;

  async function* read(answer: unknown): AsyncGenerator<AnswerEvent> {
    if (!isMessage(answer) && !isAsyncIterable(answer)) throw badAnswer("@anthropic-ai/sdk");
    const whole = isMessage(answer) ? answer : yield* readEvents(answer, modelId);
    const usage = toUsage(whole.usage, known);
    // From the size of the prompt, the summarizer sees whether a further instruction fits. Not every server reports it.
    const inputTokens = usage.input + usage.cacheRead + usage.cacheWrite;
    const counted = inputTokens > 0 ? { inputTokens } : {};
    if (asked) lastRequest = { body: asked as unknown as LastRequest["body"], ...counted };
    const [said] = fromAnthropic([whole]).messages as AssistantMessage[];
    yield answered({ api: "anthropic-messages", ...said }, model, undefined, usage);
  }

  return {
    ...model,
    // The API refuses a request whose prompt, thinking and answer together may exceed the window.
    contextWindow: (options.contextWindow ?? known.contextWindow) - thinkingTokens,
    maxOutputTokens: known.maxOutputTokens,
    answerTokens: maxTokens,
    system: options.system,
    tools: tools.flatMap((tool) =>
      "input_schema" in tool ? [toolOf(tool.name, tool.description, tool.input_schema)] : [],
    ),
    // The same client is used for answers and for summaries.
    summarizer: anthropicSummarizer({ client: clientOf, model: modelId, lastRequest: () => lastRequest }),
    params(context, { system, tools: definitions, maxOutputTokens }) {
      const format = nativeFormats.anthropic;
      const request = buildRequest(context, { format, model, system, tools: definitions });
      const marked = cacheMarked(withOwnTools(request, tools), lastMessages);
      lastMessages = request.messages;
      asked = {
        ...parameters,
        ...marked,
        model: modelId,
        max_tokens: Math.min(maxOutputTokens + thinkingTokens, known.maxOutputTokens),
      } as AnthropicParams;
      return asked;
    },
    async send(params, signal) {
      const sender = await clientOf();
      return sender.messages.stream(params, { signal, ...written(sender, writer, params) });
    },
    read,
  };
}

/**
 * Returns the body of a request and its header. The part that was sent before is not converted to JSON again. Empty for
 * the clients of other clouds, which read the fields of a body: only the client of Anthropic's own API accepts bytes.
 */
function written(client: Anthropic, writer: RequestWriter, params: AnthropicParams) {
  if (client.constructor.name !== "Anthropic") return {};
  const body = writer.write({ ...params, stream: true });
  return { body, headers: { "content-type": "application/json" } };
}

/** Adds the fields of tools that only this API knows, and then the tools that Anthropic runs. */
function withOwnTools(request: AnthropicRequest, own: readonly Anthropic.ToolUnion[]): AnthropicRequest {
  if (own.length === 0) return request;
  const byName = new Map(own.map((tool) => ["name" in tool ? tool.name : "", tool]));
  const tools = (request.tools ?? []).map((tool) => ({ ...byName.get(tool.name), ...tool }));
  const hosted = own.filter((tool) => !("input_schema" in tool));
  return { ...request, tools: [...tools, ...hosted] as NonNullable<AnthropicRequest["tools"]> };
}

/** Maximum number of cache marks of a request: the API's limit. */
const MOST_MARKS = 4;
const MARK = { cache_control: { type: "ephemeral" } } as const;

/**
 * Marks the points up to which the provider caches a request, and at which it looks for cached beginnings: the last
 * turn of the user; the last turn that is also in the previous request, since the provider looks back over twenty
 * blocks only; and the end of system prompt and tools, which is unchanged after a compaction, an edit or a change of
 * the branch. Marks are ignored when requests are compared.
 */
function cacheMarked(request: AnthropicRequest, before: AnthropicRequest["messages"] = []): AnthropicRequest {
  const free = MOST_MARKS - (request.tools ?? []).filter((tool) => "cache_control" in tool).length;
  const turns = request.messages.flatMap(({ role, content }, at) =>
    role === "user" && content.length > 0 ? [at] : [],
  );
  const last = turns.pop();
  const shared = request.messages.findIndex((message, at) => jsonText(message) !== jsonText(before[at]));
  const stable = shared > 0 ? turns.findLast((at) => at < shared) : turns.at(-1);
  const marked = [last, stable].filter((at) => at !== undefined).slice(0, Math.max(0, free));
  const messages = request.messages.map((message, at) =>
    marked.includes(at)
      ? ({ ...message, content: withMark<object>(message.content) } as typeof message)
      : message,
  );
  return { ...request, ...(free > marked.length ? markedHead(request) : {}), messages };
}

function markedHead({ system, tools = [] }: AnthropicRequest): object {
  if (system) return { system: [{ type: "text", text: system, ...MARK }] };
  return tools.length > 0 ? { tools: withMark(tools) } : {};
}

const withMark = <Block extends object>(blocks: readonly Block[]): Block[] =>
  blocks.map((block, at) => (at === blocks.length - 1 ? { ...block, ...MARK } : block));

const isMessage = (answer: unknown): answer is Anthropic.Message =>
  isRecord(answer) && answer["type"] === "message" && Array.isArray(answer["content"]);

/** Field of an event that must be an object, by the type of the event. */
const EVENT_PARTS: Readonly<Record<string, string>> = {
  message_start: "message",
  content_block_start: "content_block",
  content_block_delta: "delta",
  message_delta: "delta",
};

/** Returns false for an event that lacks its object, as servers other than Anthropic's may send it. */
function isReadable(event: unknown): boolean {
  if (!isRecord(event)) return false;
  const part = EVENT_PARTS[String(event["type"])];
  return part === undefined || isRecord(event[part]);
}

/** Reads the events of a stream of `create` or `stream` of any client; returns the whole message. */
async function* readEvents(
  events: AsyncIterable<unknown>,
  modelId: string,
): AsyncGenerator<AnswerEvent, Anthropic.Message> {
  let message: Anthropic.Message | undefined;
  const inputs = new Map<number, string>();
  for await (const event of events as AsyncIterable<Anthropic.RawMessageStreamEvent>) {
    if (!isReadable(event))
      throw new Error(
        `The stream of ${modelId} has an event of another shape: ${jsonText(event).slice(0, 200)}`,
      );
    const error = errorIn(event);
    if (error) throw error;
    const content = message?.content ?? [];
    if (event.type === "message_start") {
      message = { ...event.message, content: [] };
      yield { type: "usage", usage: toUsage(message.usage, knownModel(modelId)) };
    } else if (event.type === "content_block_start") content[event.index] = { ...event.content_block };
    else if (event.type === "content_block_delta") {
      const { index, delta } = event;
      const block = content[index];
      // A block may start without its text or its signature.
      if (delta.type === "text_delta") {
        if (block?.type === "text") block.text = (block.text ?? "") + delta.text;
        yield { type: "text", text: delta.text };
      } else if (delta.type === "thinking_delta") {
        if (block?.type === "thinking") block.thinking = (block.thinking ?? "") + delta.thinking;
        yield { type: "thinking", text: delta.thinking };
      } else if (delta.type === "citations_delta" && block?.type === "text")
        block.citations = [...(block.citations ?? []), delta.citation];
      else if (delta.type === "signature_delta" && block?.type === "thinking")
        block.signature = (block.signature ?? "") + delta.signature;
      else if (delta.type === "input_json_delta")
        inputs.set(index, (inputs.get(index) ?? "") + delta.partial_json);
    } else if (event.type === "message_delta" && message) {
      Object.assign(message, withoutNulls(event.delta));
      message.usage = { ...message.usage, ...withoutNulls(event.usage ?? {}) };
    }
  }
  if (!message?.stop_reason) throw new Error(`The stream of ${modelId} ended before its answer.`);
  // Inputs are parsed at the end of the stream, because some servers send no end of a block.
  for (const [index, json] of inputs) {
    const block = message.content[index];
    const input = parsedJson(json);
    // Incomplete JSON, as of an answer that was cut off, becomes the text `input`.
    if (json && block && "input" in block) block.input = input === undefined ? { input: json } : input;
  }
  return message;
}

const withoutNulls = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
