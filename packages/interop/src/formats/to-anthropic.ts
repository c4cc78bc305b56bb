import {
  type AnthropicMessage,
  type AnthropicRequest,
  anthropicFormat,
  buildRequest,
  type ContentBlock,
} from "@espalier/session-tree";
import type { Cargo } from "./cargo.ts";
import { carryingFormat } from "./carrying-format.ts";
import { type ConversationSource, readSource, type WriteOptions } from "./conversation-source.ts";
import { nativeFor, remoteImageUrl } from "./native.ts";

type AnswerBlock = Extract<AnthropicMessage, { role: "assistant" }>["content"][number];
type UserBlock = Extract<AnthropicMessage, { role: "user" }>["content"][number];
type Content = Exclude<UserBlock, { type: "tool_result" }>;

/**
 * The request of the Messages API of Anthropic: what `buildRequest` makes with `anthropicFormat`, and in it the blocks
 * that only this API has, where it was this provider that said them. Of those the types name the common ones alone.
 *
 * For a valid conversation it gives back what {@link fromAnthropic} read, in this normal form: content is a list of
 * blocks, the system prompt a string; a result without content says `(no output)`, `is_error` is there when true;
 * results stand in the order of their calls and before other content, calls after all text; roles alternate; blank
 * texts, and thinking at the end of an answer, are out; tool schemas have `type` and `properties`.
 *
 * @throws SessionTreeError `empty-context` when there is nothing to send
 */
export function toAnthropic(source: ConversationSource, options: WriteOptions = {}): AnthropicRequest {
  const given = readSource(source, options);
  return buildRequest(given.context, { ...given, format: anthropicNative });
}

/** `anthropicFormat`, with what only this provider can say. */
export const anthropicNative = carryingFormat(
  anthropicFormat,
  { format: "anthropic", keepsTextsApart: true },
  (request, cargo): AnthropicRequest => {
    const messages = request.messages.map((message) => unload(message, cargo));
    return { ...request, messages: withoutTrailingSpace(messages) };
  },
);

function unload(message: AnthropicMessage, cargo: Cargo): AnthropicMessage {
  return message.role === "assistant"
    ? { role: "assistant", content: message.content.map((block) => unloadAnswer(block, cargo)) }
    : { role: "user", content: message.content.map((block) => unloadUser(block, cargo)) };
}

function unloadUser(block: UserBlock, cargo: Cargo): UserBlock {
  if (block.type !== "tool_result") return unloadContent(block, cargo);
  return { ...block, content: block.content.map((inner) => unloadContent(inner, cargo)) };
}

function unloadContent(block: Content, cargo: Cargo): Content {
  const carried = cargo.at(block.type === "text" ? block.text : block.source.data);
  return carried ? (nativeForm(carried) as Content) : block;
}

function unloadAnswer(block: AnswerBlock, cargo: Cargo): AnswerBlock {
  if (block.type === "tool_use") return { ...block, ...cargo.call(block.id) };
  const carried = block.type === "text" ? cargo.at(block.text) : undefined;
  return carried ? (nativeForm(carried) as AnswerBlock) : block;
}

/** A carried block as this API writes it; no type can promise more of it than that it is an object. */
function nativeForm(block: ContentBlock): object {
  const fields = nativeFor(block, "anthropic")?.value ?? {};
  if (block.type === "text") return { type: "text", text: block.text, ...fields };
  const url = remoteImageUrl(block);
  if (url !== undefined) return { type: "image", source: { type: "url", url }, ...fields };
  if (block.type !== "image") return fields;
  const source = { type: "base64", media_type: block.mimeType, data: block.data };
  return { type: "image", source, ...fields };
}

/** As for texts that are not carried: the API refuses an answer to be continued that ends with white space. */
function withoutTrailingSpace(messages: AnthropicMessage[]): AnthropicMessage[] {
  const last = messages.at(-1);
  const block = last?.content.at(-1);
  if (last?.role !== "assistant" || block?.type !== "text") return messages;
  const trimmed = { ...block, text: block.text.replace(/[\s\x1c-\x1f\x85]+$/, "") };
  return messages.with(-1, { role: "assistant", content: last.content.with(-1, trimmed) });
}
