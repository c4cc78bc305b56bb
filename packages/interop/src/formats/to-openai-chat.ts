import {
  buildRequest,
  type ContentBlock,
  type OpenaiChatMessage,
  type OpenaiChatRequest,
  openaiChatFormat,
} from "@espalier/session-tree";
import type { Cargo } from "./cargo.ts";
import { carryingFormat } from "./carrying-format.ts";
import { type ConversationSource, readSource, type WriteOptions } from "./conversation-source.ts";
import { formatDataUrl, parseDataUrl } from "./data-url.ts";
import { nativeFor, remoteImageUrl } from "./native.ts";

type Answer = Extract<OpenaiChatMessage, { role: "assistant" }>;
type Call = NonNullable<Answer["tool_calls"]>[number];
type Part = Exclude<Extract<OpenaiChatMessage, { role: "user" }>["content"], string>[number];

/**
 * The request of Chat Completions: what `buildRequest` makes with `openaiChatFormat`, and in it the parts that only this
 * API has. Of those the types name the common ones alone.
 *
 * For a valid conversation it gives back what {@link fromOpenaiChat} read, in this normal form: `developer` is `system`,
 * and all of it the first message; texts of one message are one string with a blank line between, unless there is
 * something else in it; arguments are written without white space; an empty result says `(no output)`; results stand in
 * the order of their calls; roles alternate; `content` of an answer that only calls or refuses is null.
 *
 * @throws SessionTreeError `empty-context` when there is nothing to send
 */
export function toOpenaiChat(source: ConversationSource, options: WriteOptions = {}): OpenaiChatRequest {
  const given = readSource(source, options);
  return buildRequest(given.context, { ...given, format: openaiChatNative });
}

/** `openaiChatFormat`, with what only this API can say. */
export const openaiChatNative = carryingFormat(
  openaiChatFormat,
  { format: "openai-chat", keepsTextsApart: false },
  (request, cargo): OpenaiChatRequest => ({
    ...request,
    messages: request.messages.map((message) => unload(message, cargo)),
  }),
);

function unload(message: OpenaiChatMessage, cargo: Cargo): OpenaiChatMessage {
  if (message.role === "assistant") return unloadAnswer(message, cargo);
  if (message.role !== "user" || typeof message.content === "string") return message;
  return { role: "user", content: message.content.map((part) => unloadPart(part, cargo)) };
}

function unloadAnswer(message: Answer, cargo: Cargo): Answer {
  const { content, tool_calls } = message;
  const refusal = cargo.at(content);
  const isRefusal =
    refusal?.type === "text" && nativeFor(refusal, "openai-chat")?.value["type"] === "refusal";
  return {
    ...message,
    ...(isRefusal ? { content: null, refusal: refusal.text } : { content: content && cargo.expand(content) }),
    ...(tool_calls ? { tool_calls: tool_calls.map((call) => unloadCall(call, cargo)) } : {}),
  };
}

/** A custom tool takes text instead of arguments. */
function unloadCall(call: Call, cargo: Cargo): Call {
  const { id } = call;
  const { name } = call.function;
  const { input } = JSON.parse(call.function.arguments) as { input?: unknown };
  if (cargo.call(id)?.["type"] !== "custom" || typeof input !== "string") return call;
  return { id, type: "custom", custom: { name, input } } as unknown as Call;
}

function unloadPart(part: Part, cargo: Cargo): Part {
  const carried = part.type === "image_url" ? cargo.at(parseDataUrl(part.image_url.url)?.data) : undefined;
  return carried ? (nativeForm(carried) as Part) : part;
}

/** A carried block as this API writes it; no type can promise more of it than that it is an object. */
function nativeForm(block: ContentBlock): object {
  const fields = nativeFor(block, "openai-chat")?.value ?? {};
  const url = block.type === "image" ? formatDataUrl(block.mimeType, block.data) : remoteImageUrl(block);
  return url === undefined ? fields : { type: "image_url", image_url: { url, ...fields } };
}
