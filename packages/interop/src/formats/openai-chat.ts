import {
  buildRequest,
  type ContentBlock,
  isRecord,
  type OpenaiChatMessage,
  type OpenaiChatRequest,
  openaiChatFormat,
  type ToolDefinition,
} from "@espalier/session-tree";
import { type Cargo, carryingFormat } from "./carrying.ts";
import {
  ConversationBuilder,
  type ConversationOptions,
  type ConversationSource,
  type ImportedConversation,
  readSource,
  type WriteOptions,
} from "./conversation.ts";
import { formatDataUrl, nativeBlock, nativeFor, parseDataUrl, remoteImageUrl, withNative } from "./native.ts";
import { partsOf, readArguments, readImage, readOpenaiTools, refusalFacts } from "./openai-blocks.ts";

const FORMAT = "openai-chat";

type Fields = Record<string, unknown>;

/** Fields in which servers that speak this API give away a model's reasoning; there is no field for sending it back. */
const REASONING_FIELDS = ["reasoning_content", "reasoning"];

/**
 * A Chat Completions conversation as neutral messages: a request (`{messages, tools}`), or its list of messages. Never
 * throws: what is not of the format is passed over and told in `issues`.
 *
 * - `system` and `developer` messages at the beginning become the system prompt; later ones stay in their place
 * - sound and files are kept as they are, and given back by `toOpenaiChat`; so is a call of a custom tool
 * - `name`, `audio` of an answer, and what is for one request (`prompt_cache_breakpoint`): left out, and told
 * - an answer that refuses failed (`stopReason` `error`), as one of another provider; this one gets it back
 */
export function fromOpenaiChat(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const builder = new ConversationBuilder({ api: "openai-completions", provider: "openai" }, options);
  const plain = builder.read(input);
  const request = Array.isArray(plain) ? { messages: plain } : isRecord(plain) ? plain : {};
  const { messages } = request;
  if (!Array.isArray(messages))
    builder.issues.add("malformed", "messages", "", "There is no list of messages.");
  for (const [at, message] of (Array.isArray(messages) ? messages : []).entries())
    readMessage(isRecord(message) ? message : {}, `messages[${at}]`, builder);
  return builder.finish(readTools(request["tools"], builder));
}

function readMessage(message: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const { role, content, ...rest } = message;
  if (role === "assistant") {
    readAnswer(message, path, builder);
    return;
  }
  if (role === "tool") {
    const { tool_call_id, ...others } = rest;
    issues.dropped(Object.keys(others), path);
    const id = typeof tool_call_id === "string" ? tool_call_id : "";
    builder.result(id, contentOf(content, path, builder), false, path);
    return;
  }
  issues.dropped(Object.keys(rest), path);
  if (role === "user")
    builder.user(typeof content === "string" ? content : contentOf(content, path, builder));
  else if (role === "system" || role === "developer") {
    const texts = contentOf(content, path, builder).flatMap((block) =>
      block.type === "text" ? [block.text] : [],
    );
    builder.system(texts.join("\n\n"), path);
  } else issues.add("malformed", "role", path, "A message is of no role that is known here; it is left out.");
}

function readAnswer(message: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const { role: _role, content, refusal, tool_calls, ...rest } = message;
  const blocks: ContentBlock[] = [];
  for (const field of REASONING_FIELDS) {
    const text = rest[field];
    delete rest[field];
    // The name of the field in the place of a signature is what other writers of such sessions put there.
    if (typeof text === "string" && text !== "") {
      blocks.push({ type: "thinking", thinking: text, thinkingSignature: field });
      issues.add("changed", field, path, "Reasoning is kept; this API has no place for it in a request.");
      break;
    }
  }
  if (content !== null && content !== undefined)
    for (const block of contentOf(content, path, builder)) blocks.push(block);
  if (typeof refusal === "string") blocks.push(refused(refusal));
  for (const [call, place] of partsOf(
    Array.isArray(tool_calls) ? tool_calls : [],
    `${path}.tool_calls`,
    issues,
  ))
    for (const block of readCall(call, place, builder)) blocks.push(block);
  issues.dropped(
    Object.keys(rest).filter((field) => rest[field] !== null),
    path,
  );
  builder.answer(blocks, refusalFacts(blocks, FORMAT));
}

function readCall(call: Fields, path: string, { issues }: ConversationBuilder): ContentBlock[] {
  const { id, type } = call;
  const tool = call[String(type)];
  if (typeof id === "string" && isRecord(tool) && typeof tool["name"] === "string") {
    const named = { type: "toolCall", id, name: tool["name"] } as const;
    if (type === "function") return [{ ...named, arguments: readArguments(tool["arguments"], path, issues) }];
    if (type === "custom")
      return [withNative({ ...named, arguments: { input: String(tool["input"] ?? "") } }, FORMAT, { type })];
  }
  issues.add("malformed", "tool_calls", path, "A call has not the shape of its type; it is left out.");
  return [];
}

function contentOf(content: unknown, path: string, { issues }: ConversationBuilder): ContentBlock[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) {
    issues.add("malformed", "content", path, "The content of a message is neither text nor a list.");
    return [];
  }
  return partsOf(content, `${path}.content`, issues).flatMap(([part, place]) => {
    const { prompt_cache_breakpoint, ...fields } = part;
    if (prompt_cache_breakpoint) issues.dropped(["prompt_cache_breakpoint"], place);
    const { type, text, refusal, image_url } = fields;
    if (type === "text" && typeof text === "string") return [{ type, text }];
    if (type === "refusal" && typeof refusal === "string") return [refused(refusal)];
    if (type === "image_url" && isRecord(image_url) && typeof image_url["url"] === "string") {
      const { url, ...rest } = image_url;
      return [readImage(image_url["url"], FORMAT, rest)];
    }
    if (type === "text" || type === "refusal" || type === "image_url") {
      issues.add("malformed", type, place, "A part has not the shape of its type; it is left out.");
      return [];
    }
    issues.opaque(type, place);
    return [nativeBlock(FORMAT, fields)];
  });
}

/** A refusal is a text that says what it is. */
const refused = (text: string): ContentBlock =>
  withNative({ type: "text", text }, FORMAT, { type: "refusal" });

function readTools(tools: unknown, { issues }: ConversationBuilder): ToolDefinition[] {
  const functions = (Array.isArray(tools) ? tools : []).map((tool) => {
    const inner = isRecord(tool) && tool["type"] === "function" ? tool["function"] : undefined;
    return isRecord(inner) ? { type: "function", ...inner } : tool;
  });
  return readOpenaiTools(functions, issues);
}

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
 * @throws EspalierError `empty-context` when there is nothing to send
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
