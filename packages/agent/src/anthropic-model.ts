import type Anthropic from "@anthropic-ai/sdk";
import { fromAnthropic, nativeFormats } from "@espalier/interop";
import {
  type AnthropicRequest,
  type AssistantBlock,
  type AssistantMessage,
  RequestWriter,
  type StopReason,
} from "@espalier/session-tree";
import {
  type AnthropicAccess,
  anthropicClient,
  anthropicSummarizer,
  DEFAULT_ANTHROPIC_MODEL,
  anthropicModel as knownModel,
  type LastRequest,
  type ReportedUsage,
  thinkingBudget,
  toUsage,
} from "@espalier/summarizer";
import type { Model, ModelEvent, StreamOptions } from "./model.ts";
import { ABORTED, addPiece } from "./turn.ts";

/** The model that answers where none is named. */
export const DEFAULT_MODEL = DEFAULT_ANTHROPIC_MODEL;

/** The Claude model, and access to it. All are optional where `ANTHROPIC_API_KEY` is set. */
export interface AnthropicModelOptions extends AnthropicAccess {
  /** Default {@link DEFAULT_MODEL}. */
  model?: string;
  /** Tokens; from the catalogue of models where absent. */
  contextWindow?: number;
  /**
   * More fields of the request, such as `thinking`; the tokens that this fixes come on top of the answer's, and no context
   * has them: the model made of this has a window that is smaller by as many.
   */
  parameters?: Readonly<Record<string, unknown>>;
}

/** The most tokens that an answer is asked for, unless the caller says otherwise. */
const USUAL_OUTPUT = 16_384;

/** Claude through `@anthropic-ai/sdk`, streamed. The prefix of the conversation is marked for the provider's cache. */
export function anthropicModel(options: AnthropicModelOptions = {}): Model<AnthropicRequest> {
  const { model: modelId = DEFAULT_MODEL, contextWindow, parameters = {}, ...access } = options;
  const known = knownModel(modelId);
  let lastRequest: LastRequest | undefined;
  const writer = new RequestWriter();
  const client = anthropicClient(access);
  const thinkingTokens = thinkingBudget(parameters);

  async function* stream(
    request: AnthropicRequest,
    { signal, maxOutputTokens }: StreamOptions,
  ): AsyncGenerator<ModelEvent> {
    const partial: AssistantBlock[] = [];
    let usage: ReportedUsage = {};
    try {
      const body = {
        ...parameters,
        ...cacheMarked(request),
        model: modelId,
        max_tokens: Math.min((maxOutputTokens ?? USUAL_OUTPUT) + thinkingTokens, known.maxOutputTokens),
      };
      const answering = (await client()).messages.stream(body as Anthropic.MessageStreamParams, {
        signal,
        ...written(body),
      });
      for await (const event of answering) {
        if (event.type === "message_start") usage = event.message.usage;
        const piece = event.type === "content_block_delta" && pieceOf(event.delta);
        if (!piece) continue;
        addPiece(partial, piece);
        yield piece;
      }
      const message = await answering.finalMessage();
      lastRequest = { body, ...countOf(message.usage) };
      const [said] = fromAnthropic([message]).messages as AssistantMessage[];
      const { content = [], stopReason = "stop", errorMessage } = said ?? {};
      yield answer(content, message.usage, stopReason, errorMessage);
    } catch (error) {
      const aborted = signal.aborted || (error as Error).name === "APIUserAbortError";
      yield answer(partial, usage, aborted ? "aborted" : "error", aborted ? ABORTED : wordsOf(error));
    }
  }

  /** A long conversation is not made JSON anew for each of its requests. The client of another cloud reads the body itself. */
  function written(body: object) {
    if (access.client) return {};
    return { body: writer.write({ ...body, stream: true }), headers: { "content-type": "application/json" } };
  }

  function answer(
    content: AssistantBlock[],
    usage: ReportedUsage,
    stopReason: StopReason,
    errorMessage?: string,
  ): ModelEvent {
    const message: AssistantMessage = {
      role: "assistant",
      content,
      api: "anthropic-messages",
      provider: "anthropic",
      model: modelId,
      usage: toUsage(usage, known),
      stopReason,
      ...(errorMessage ? { errorMessage } : {}),
      timestamp: Date.now(),
    };
    return { type: "answer", message };
  }

  return {
    provider: "anthropic",
    modelId,
    // Providers refuse a request whose prompt, thinking and answer together may exceed the window.
    contextWindow: (contextWindow ?? known.contextWindow) - thinkingTokens,
    maxOutputTokens: known.maxOutputTokens,
    format: nativeFormats.anthropic,
    // The same one is asked for answers and for summaries.
    summarizer: anthropicSummarizer({ ...access, model: modelId, lastRequest: () => lastRequest }),
    stream,
  };
}

/** The prompt as its provider counted it, which tells whether an instruction more still fits; nothing where it did not. */
function countOf(reported: ReportedUsage): Pick<LastRequest, "inputTokens"> {
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = reported;
  const inputTokens =
    (input_tokens ?? 0) + (cache_read_input_tokens ?? 0) + (cache_creation_input_tokens ?? 0);
  return inputTokens > 0 ? { inputTokens } : {};
}

function pieceOf(delta: Anthropic.RawContentBlockDelta): Exclude<ModelEvent, { type: "answer" }> | undefined {
  if (delta.type === "text_delta") return { type: "text", text: delta.text };
  if (delta.type === "thinking_delta") return { type: "thinking", text: delta.thinking };
  return undefined;
}

/** Error text of a provider with its status, by which an overflow is recognised. */
function wordsOf(error: unknown): string {
  const { status, message } = error as { status?: unknown; message?: unknown };
  const words = typeof message === "string" && message !== "" ? message : String(error);
  // A proxy says this in words of its own.
  if (status === 413 && !words.includes("request_too_large")) return `request_too_large: ${words}`;
  return status === undefined || words.startsWith(`${status}`) ? words : `${status} ${words}`;
}

/**
 * The last user block is marked, so that the provider keeps everything up to it; the mark itself is no part of what is
 * compared, so the next request finds the prefix.
 */
function cacheMarked(request: AnthropicRequest): AnthropicRequest {
  const messages = [...request.messages];
  const at = messages.findLastIndex(({ role }) => role === "user");
  const last = messages[at];
  if (!last || typeof last.content === "string") return request;
  const content = [...last.content] as { type: string }[];
  content[content.length - 1] = Object.assign({}, content.at(-1), { cache_control: { type: "ephemeral" } });
  messages[at] = { ...last, content } as (typeof messages)[number];
  return { ...request, messages };
}
