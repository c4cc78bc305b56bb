import {
  type AnthropicMessage,
  type AnthropicRequest,
  anthropicFormat,
  buildRequest,
  type ContentBlock,
  isRecord,
  type ToolDefinition,
} from "@espalier/session-tree";
import { answerFacts, blocksOf, droppedFields, readAnswerBlock, readBlock } from "./anthropic-blocks.ts";
import { type Cargo, carryingFormat } from "./carrying.ts";
import {
  ConversationBuilder,
  type ConversationOptions,
  type ConversationSource,
  type ImportedConversation,
  readSource,
  type WriteOptions,
} from "./conversation.ts";
import { nativeFor, remoteImageUrl } from "./native.ts";

/**
 * A Messages API conversation of Anthropic as neutral messages: a request (`{system, messages, tools}`), or its list of
 * messages; answers may be whole responses. Never throws: what is not of the format is passed over and told in `issues`.
 *
 * - `tool_result` blocks become messages of their own, before what else their turn says
 * - documents, search results, everything a server tool said: kept as they are, and given back by `toAnthropic`
 * - fields beyond the common ones (`citations`, `caller`, `transformations`) are kept beside their block
 * - `cache_control` is for one request, not for a conversation: left out, and told
 */
export function fromAnthropic(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const builder = new ConversationBuilder({ api: "anthropic-messages", provider: "anthropic" }, options);
  const plain = builder.read(input);
  const request = Array.isArray(plain) ? { messages: plain } : isRecord(plain) ? plain : {};
  if (!Array.isArray(request["messages"]))
    builder.issues.add("malformed", "messages", "", "There is no list of messages.");
  builder.system(readPrompt(request["system"], "system", builder), "system");
  for (const [at, message] of listOf(request["messages"]).entries())
    readMessage(message, `messages[${at}]`, builder);
  return builder.finish(readTools(request["tools"], builder));
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function readMessage(message: unknown, path: string, builder: ConversationBuilder): void {
  const { role, content, ...rest } = isRecord(message) ? message : {};
  if (role === "assistant") {
    readAnswer(content, rest, path, builder);
    return;
  }
  builder.issues.dropped(Object.keys(rest), path);
  if (role === "user") readUser(content, path, builder);
  else if (role === "system") builder.system(readPrompt(content, path, builder), path);
  else builder.issues.add("malformed", "role", path, "A message is of no role that the format knows.");
}

function readUser(content: unknown, path: string, builder: ConversationBuilder): void {
  if (typeof content === "string") {
    builder.user(content);
    return;
  }
  const said: ContentBlock[] = [];
  let results = 0;
  for (const [block, place] of blocksOf(content, path, builder.issues)) {
    if (block["type"] === "tool_result") {
      results++;
      readResult(block, place, builder);
    } else for (const read of readBlock(block, place, builder.issues)) said.push(read);
  }
  if (said.length > 0 || results === 0) builder.user(said);
}

function readResult(block: Record<string, unknown>, path: string, builder: ConversationBuilder): void {
  const { type: _type, tool_use_id, content, is_error, cache_control: _cache, ...rest } = block;
  const { issues } = builder;
  issues.dropped(droppedFields(block, rest), path);
  const blocks: ContentBlock[] =
    typeof content === "string"
      ? [{ type: "text", text: content }]
      : blocksOf(content ?? [], path, issues).flatMap(([inner, place]) => readBlock(inner, place, issues));
  builder.result(typeof tool_use_id === "string" ? tool_use_id : "", blocks, is_error === true, path);
}

function readAnswer(
  content: unknown,
  facts: Record<string, unknown>,
  path: string,
  builder: ConversationBuilder,
): void {
  const { issues } = builder;
  const blocks: ContentBlock[] =
    typeof content === "string"
      ? [{ type: "text", text: content }]
      : blocksOf(content, path, issues).flatMap(([block, place]) => readAnswerBlock(block, place, issues));
  const { said, unread } = answerFacts(facts);
  issues.dropped(unread, path);
  builder.answer(blocks, said);
}

function readPrompt(system: unknown, path: string, { issues }: ConversationBuilder): string {
  if (system === undefined || typeof system === "string") return system ?? "";
  const texts: string[] = [];
  for (const [block, place] of blocksOf(system, path, issues)) {
    const { type, text, cache_control: _cache, ...rest } = block;
    issues.dropped(droppedFields(block, rest), place);
    if (type === "text" && typeof text === "string") texts.push(text);
    else issues.add("malformed", "system", place, "A block of the system prompt is no text.");
  }
  return texts.filter((text) => text !== "").join("\n\n");
}

/** Tools that the client runs. Those that the server runs belong to a request, not to a conversation. */
function readTools(tools: unknown, { issues }: ConversationBuilder): ToolDefinition[] {
  return listOf(tools).flatMap((tool, at): ToolDefinition[] => {
    const path = `tools[${at}]`;
    const {
      name,
      description,
      input_schema,
      type,
      cache_control: _cache,
      ...rest
    } = isRecord(tool) ? tool : {};
    if (typeof name !== "string" || (typeof type === "string" && type !== "custom")) {
      issues.add("dropped", "tool", path, "A tool that the server runs has no place in a session.");
      return [];
    }
    issues.dropped(droppedFields(tool as Record<string, unknown>, rest), path);
    const described = typeof description === "string" ? { description } : {};
    return [{ name, ...described, ...(isRecord(input_schema) ? { parameters: input_schema } : {}) }];
  });
}

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
 * @throws EspalierError `empty-context` when there is nothing to send
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
