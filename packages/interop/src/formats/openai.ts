import {
  type AssistantMessage,
  type ContentBlock,
  isRecord,
  type OpenaiChatRequest,
  type OpenaiResponsesRequest,
  openaiChatFormat,
  openaiResponsesFormat,
  parsedJson,
  type ThinkingBlock,
  type ToolCallBlock,
  type ToolDefinition,
} from "@espalier/session-tree";
import {
  ConversationBuilder,
  type ConversationOptions,
  type ConversationSource,
  type FormatIssues,
  type ImportedConversation,
  listOf,
  partsOf,
  readContent,
  textsOf,
  toolOf,
  type WriteOptions,
  writeRequest,
} from "./conversation.ts";
import {
  type FormatName,
  imageAt,
  type NativeTies,
  nativeFormat,
  plainJson,
  refusesIn,
  withNative,
} from "./native.ts";

const CHAT = "openai-chat";
const RESPONSES = "openai-responses";

type Fields = Record<string, unknown>;

/** Fields in which servers with this API return a model's reasoning; there is no field for sending it back. */
const REASONING_FIELDS = ["reasoning_content", "reasoning"];

/**
 * Reads a Chat Completions conversation as neutral messages: a request (`{messages, tools}`), or its list of messages.
 * Never throws: any other value is skipped and listed in `issues`.
 *
 * - `system` and `developer` messages at the beginning become the system prompt; later ones keep their position
 * - sound and files are stored unchanged, calls of custom tools as calls with the argument `input`; `toOpenaiChat` returns
 *   all of them
 * - `name`, `audio` of an answer, and fields for one request (`prompt_cache_breakpoint`) are left out, with an issue
 */
export function fromOpenaiChat(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const builder = new ConversationBuilder({ api: "openai-completions", provider: "openai" }, options);
  const request = builder.read(input, "messages");
  for (const [message, path] of builder.messagesOf(request)) readChatMessage(message, path, builder);
  const tools = listOf(request["tools"]).map((tool) => {
    const inner = isRecord(tool) && tool["type"] === "function" ? tool["function"] : undefined;
    return isRecord(inner) ? { type: "function", ...inner } : tool;
  });
  return builder.finish(readOpenaiTools(tools, builder.issues));
}

function readChatMessage(message: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const { role, content, ...rest } = message;
  if (role === "assistant") {
    readChatAnswer(message, path, builder);
    return;
  }
  const { tool_call_id, ...others } = rest;
  issues.dropped(Object.keys(role === "tool" ? others : rest), path);
  const blocks = () => readContent(content, `${path}.content`, issues, readChatPart);
  if (role === "tool")
    builder.result(typeof tool_call_id === "string" ? tool_call_id : "", blocks(), false, path);
  else if (role === "user") builder.user(typeof content === "string" ? content : blocks());
  else if (role === "system" || role === "developer") builder.system(textsOf(blocks()).join("\n\n"), path);
  else issues.add("malformed", "role", path, "A message has an unknown role; it is left out.");
}

function readChatAnswer(message: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const { role: _role, content, refusal, tool_calls, ...rest } = message;
  const blocks: ContentBlock[] = [];
  for (const field of REASONING_FIELDS) {
    const text = rest[field];
    delete rest[field];
    // Other writers of such sessions also put the name of the field in place of a signature.
    if (typeof text === "string" && text !== "") {
      blocks.push({ type: "thinking", thinking: text, thinkingSignature: field });
      issues.add("changed", field, path, "Reasoning is kept; requests of this API cannot have it.");
      break;
    }
  }
  if (content !== null && content !== undefined)
    for (const block of readContent(content, `${path}.content`, issues, readChatPart)) blocks.push(block);
  if (typeof refusal === "string") blocks.push(refused(refusal));
  for (const [call, place] of partsOf(listOf(tool_calls), `${path}.tool_calls`, issues))
    for (const block of readChatCall(call, place, issues)) blocks.push(block);
  issues.dropped(
    Object.keys(rest).filter((field) => rest[field] !== null),
    path,
  );
  builder.answer(blocks, refusalFacts(blocks, CHAT));
}

function readChatCall(call: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { id, type } = call;
  const tool = call[String(type)];
  if (typeof id === "string" && isRecord(tool) && typeof tool["name"] === "string") {
    const named = { type: "toolCall", id, name: tool["name"] } as const;
    if (type === "function") return [{ ...named, arguments: readArguments(tool["arguments"], path, issues) }];
    if (type === "custom")
      return [withNative({ ...named, arguments: { input: String(tool["input"] ?? "") } }, CHAT, { type })];
  }
  return issues.misshapen("tool_calls", path, "A call does not have the shape of its type; it is left out.");
}

function readChatPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { prompt_cache_breakpoint, ...fields } = part;
  if (prompt_cache_breakpoint) issues.dropped(["prompt_cache_breakpoint"], path);
  const { type, text, refusal, image_url } = fields;
  if (type === "text" && typeof text === "string") return [{ type, text }];
  if (type === "refusal" && typeof refusal === "string") return [refused(refusal)];
  if (type === "image_url" && isRecord(image_url) && typeof image_url["url"] === "string") {
    const { url, ...rest } = image_url;
    return [readImage(image_url["url"], CHAT, rest) ?? issues.opaque(CHAT, fields, path)];
  }
  if (type === "text" || type === "refusal" || type === "image_url") return issues.misshapen(type, path);
  return [issues.opaque(CHAT, fields, path)];
}

/** Makes a refusal: a text with type `refusal` in its native fields. */
const refused = (text: string): ContentBlock => withNative({ type: "text", text }, CHAT, { type: "refusal" });

/** `openaiChatFormat`, with the parts and calls that only this API has. */
export const openaiChatNative = nativeFormat(openaiChatFormat, CHAT, {
  isPlainAnswer: true,
  text: (refusal, { type }, isAnswer) => (isAnswer && type === "refusal" ? { type, refusal } : undefined),
  picture: ({ url }, fields) => ({ type: "image_url", image_url: { url, ...fields } }),
});

/**
 * Makes a request of Chat Completions: that of `buildRequest` with `openaiChatFormat`, with the parts that only this
 * API has. The types only name common parts.
 *
 * For a valid conversation it gives back the input of {@link fromOpenaiChat}, in this normal form: `developer` is
 * `system`, and all of it the first message; texts of one message are one string with a blank line between, unless the
 * message has other parts; arguments are written without white space; an empty result says `(no output)`; results are
 * in the order of their calls; roles alternate; `content` of an answer that only calls or refuses is null.
 *
 * @throws EspalierError `empty-context` when there is nothing to send
 */
export function toOpenaiChat(source: ConversationSource, options: WriteOptions = {}): OpenaiChatRequest {
  return writeRequest(source, options, openaiChatNative);
}

/**
 * Reads a conversation of the Responses API as neutral messages: a request (`{instructions, input, tools}`), or its
 * list of items; output items of a response are also accepted. A response (`{output}`) is one answer with all of its
 * items. Never throws: any other value is skipped and listed in `issues`.
 *
 * - the items of one answer (reasoning, messages, calls) become one message
 * - reasoning keeps its item in `thinkingSignature`; its encrypted content is sent back only to the same model
 * - a `compaction`, files and items of hosted tools are stored unchanged, calls of custom tools as calls with the argument
 *   `input`; `toOpenaiResponses` returns all of them, those that only this provider can read to this provider alone
 * - `id` and `status` of items are not stored: a request that is sent whole has none. `annotations` are left out,
 *   with an issue
 */
export function fromOpenaiResponses(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const builder = new ConversationBuilder({ api: "openai-responses", provider: "openai" }, options);
  const request = builder.read(input, "input");
  const { instructions } = request;
  if (typeof instructions === "string") builder.system(instructions, "instructions");
  const isResponse = Array.isArray(request["output"]);
  new ItemReader(builder, isResponse).readAll(request[isResponse ? "output" : "input"]);
  return builder.finish(readOpenaiTools(request["tools"], builder.issues));
}

/** Types of items of the client that do not end in `_output`. */
const GIVEN = new Set([
  "compaction",
  "compaction_summary",
  "context_compaction",
  "compaction_trigger",
  "mcp_approval_response",
  "additional_tools",
]);

/**
 * Returns whether the client gave an item, or the item replaces earlier ones; all other items are a model's. The result
 * of a program, and of a search by the server, which has no id of a call, are parts of the answer.
 */
function isGiven(item: Fields): boolean {
  const type = String(item["type"]);
  if (type === "program_output" || (type === "tool_search_output" && !item["call_id"])) return false;
  return type.endsWith("_output") || GIVEN.has(type);
}

/** Reads items in order; a model's items are collected until another item follows. */
class ItemReader {
  readonly #builder: ConversationBuilder;
  /** True: all items are of one answer, also those that a client can give, such as the result of a hosted tool. */
  readonly #isResponse: boolean;
  #answer: ContentBlock[] = [];

  constructor(builder: ConversationBuilder, isResponse: boolean) {
    this.#builder = builder;
    this.#isResponse = isResponse;
  }

  readAll(input: unknown): void {
    const { issues } = this.#builder;
    if (typeof input === "string") this.#builder.user(input);
    else if (!Array.isArray(input)) issues.add("malformed", "input", "", "There is no list of items.");
    else for (const [at, item] of input.entries()) this.#read(item, `input[${at}]`);
    this.#endAnswer();
  }

  #read(item: unknown, path: string): void {
    const { issues } = this.#builder;
    if (!isRecord(item)) issues.add("malformed", "item", path, "An item is not an object; it is left out.");
    else if (item["type"] === "message" || (item["type"] === undefined && "role" in item))
      this.#message(item, path);
    else if (item["type"] === "reasoning") this.#reasoning(item, path);
    else if (typeof item["call_id"] === "string" && this.#callOrOutput(item, item["call_id"], path)) return;
    else if (item["type"] === "item_reference" || typeof item["type"] !== "string")
      issues.add("malformed", "item", path, "An item has no content that could be kept; it is left out.");
    else this.#other(item, path);
  }

  #message({ type: _type, role, content, ...rest }: Fields, path: string): void {
    const { issues, provider } = this.#builder;
    const blocks = readItemContent(content, `${path}.content`, issues, provider);
    if (role === "assistant") {
      const extra = extraFields(rest);
      for (const block of blocks) this.#answer.push(block.type === "text" ? withExtra(block, extra) : block);
      return;
    }
    this.#endAnswer();
    issues.dropped(unreadFields(rest), path);
    if (role === "user") this.#builder.user(typeof content === "string" ? content : blocks);
    else if (role === "system" || role === "developer") {
      this.#builder.system(textsOf(blocks).join("\n\n"), path);
    } else issues.add("malformed", "role", path, "A message has an unknown role; it is left out.");
  }

  #reasoning(item: Fields, path: string): void {
    this.#answer.push(readReasoning(item));
    if (typeof item["encrypted_content"] === "string") return;
    const message = "Reasoning without encrypted content is kept; requests leave it out.";
    this.#builder.issues.add("changed", "reasoning", path, message);
  }

  /** Reads calls of the client's tools and their outputs; false for any other item. */
  #callOrOutput(item: Fields, id: string, path: string): boolean {
    const { issues, provider } = this.#builder;
    const { type, call_id: _id, name: _name, arguments: _given, input: _input, output, ...rest } = item;
    const extra = extraFields(rest);
    const call = readItemCall(item, path, issues);
    if (call) this.#answer.push(withExtra(call, extra));
    else if (type === "function_call_output" || type === "custom_tool_call_output") {
      this.#endAnswer();
      issues.dropped(Object.keys(extra), path);
      const content = isRecord(output) ? JSON.stringify(output) : (output ?? "");
      this.#builder.result(id, readItemContent(content, `${path}.output`, issues, provider), false, path);
    } else return false;
    return true;
  }

  #other(item: Fields, path: string): void {
    const { issues, provider } = this.#builder;
    const block = issues.opaque(RESPONSES, item, path, provider);
    if (this.#isResponse || !isGiven(item)) {
      this.#answer.push(block);
      return;
    }
    this.#endAnswer();
    this.#builder.user([block]);
  }

  #endAnswer(): void {
    if (this.#answer.length > 0) this.#builder.answer(this.#answer, refusalFacts(this.#answer, RESPONSES));
    this.#answer = [];
  }
}

/** Reads a call of a client's tool; undefined for any other item. */
export function readItemCall(item: Fields, path: string, issues: FormatIssues): ToolCallBlock | undefined {
  const { type, call_id: id, name, arguments: given, input } = item;
  if (typeof id !== "string" || typeof name !== "string") return undefined;
  if (type === "function_call")
    return { type: "toolCall", id, name, arguments: readArguments(given, path, issues) };
  if (type !== "custom_tool_call") return undefined;
  const call = { type: "toolCall", id, name, arguments: { input: String(input ?? "") } } as const;
  return withNative(call, RESPONSES, { type });
}

/** Adds fields to those that only this API has, such as the `phase` of a message. */
function withExtra(block: ContentBlock, extra: Fields): ContentBlock {
  const known = (block as { native?: { value: Fields } }).native?.value;
  return withNative(block, RESPONSES, { ...known, ...extra });
}

/** Returns the ids of a call that is not of a function, of its output, or of the program that made a call. */
function tiesOf({ type, call_id, id, approval_request_id, caller }: Fields): NativeTies {
  if (type === "mcp_approval_request") return { question: id };
  if (type === "mcp_approval_response") return { result: approval_request_id };
  const by = isRecord(caller) ? (caller["caller_id"] ?? undefined) : undefined;
  // The server's own searches have no `call_id`. The output of a local shell names its call by the `id` of the item.
  if (typeof call_id !== "string" || String(type).startsWith("local_shell")) return { caller: by };
  return String(type).endsWith("_output") ? { result: call_id } : { call: call_id, caller: by };
}

/** `openaiResponsesFormat`, with the items, parts and fields that only this API has. */
export const openaiResponsesNative = nativeFormat(openaiResponsesFormat, RESPONSES, {
  ties: tiesOf,
  text: (text, { type, ...extra }, isAnswer) =>
    isAnswer
      ? {
          type: "message",
          role: "assistant",
          content: type === "refusal" ? [{ type, refusal: text }] : text,
          ...extra,
        }
      : undefined,
  picture: ({ url }, fields) => ({ type: "input_image", image_url: url, detail: "auto", ...fields }),
});

/**
 * Makes a request of the Responses API: that of `buildRequest` with `openaiResponsesFormat`, with the items and parts
 * that only this API has: those of users, and those of answers that the provider of the model gave. The types only name
 * common ones.
 *
 * For a valid conversation it gives back the input of {@link fromOpenaiResponses}, in this normal form: no item has
 * `status`, and none but reasoning has `id`; system and developer messages are in `instructions`; each text of an
 * answer is a separate message whose content is a string; content of a user is a list of parts; an output of texts
 * alone is one string with a blank line between; `detail` of an image is present, arguments are written without white
 * space, an empty output says `(no output)`; outputs are together after their calls; reasoning has its id, summary and
 * encrypted content, and is left out without the latter or at the end of an answer; items before all user messages
 * follow an opening by the user.
 *
 * @throws EspalierError `empty-context` when there is nothing to send
 */
export function toOpenaiResponses(
  source: ConversationSource,
  options: WriteOptions = {},
): OpenaiResponsesRequest {
  return writeRequest(source, options, openaiResponsesNative);
}

/**
 * Returns the fields that mark a refusal as a failed answer, as for Anthropic; none for any other answer, and for a
 * refusal that calls tools.
 */
const refusalFacts = (blocks: readonly ContentBlock[], format: FormatName): Partial<AssistantMessage> =>
  refusesIn(blocks, format) && !blocks.some(({ type }) => type === "toolCall")
    ? { stopReason: "error", errorMessage: "The model stopped: refusal." }
    : {};

/**
 * Fields by which the API finds stored items, and marks for one request: a conversation that is sent whole has none.
 */
const BOOKKEEPING = new Set(["id", "status", "prompt_cache_breakpoint", "logprobs"]);

/** Reads the content of a message or of an output of the Responses API. */
export const readItemContent = (
  content: unknown,
  path: string,
  issues: FormatIssues,
  provider: string,
): ContentBlock[] => readContent(content, path, issues, (part, at) => readPart(part, at, issues, provider));

function readPart(part: Fields, path: string, issues: FormatIssues, provider: string): ContentBlock[] {
  const { type, text, refusal, image_url, annotations, ...rest } = part;
  if ((type === "input_text" || type === "output_text") && typeof text === "string") {
    if (Array.isArray(annotations) && annotations.length > 0) issues.dropped(["annotations"], path);
    issues.dropped(unreadFields(rest), path);
    return [{ type: "text", text }];
  }
  if (type === "refusal" && typeof refusal === "string")
    return [withNative({ type: "text", text: refusal }, RESPONSES, { type })];
  if (type === "input_image" && typeof image_url === "string") {
    const { prompt_cache_breakpoint, file_id, ...fields } = rest;
    if (prompt_cache_breakpoint) issues.dropped(["prompt_cache_breakpoint"], path);
    const image = readImage(image_url, RESPONSES, file_id ? { ...fields, file_id } : fields);
    return [image ?? issues.opaque(RESPONSES, part, path)];
  }
  // Parts of a client begin with `input_`. A separate item has another beginning, and must not be confused with a part.
  if (type === "input_text" || !String(type).startsWith("input_"))
    return issues.misshapen(
      "part",
      path,
      "A part has a type or shape that no message can have; it is left out.",
    );
  // A file id names a file that this provider stored.
  return [issues.opaque(RESPONSES, part, path, part["file_id"] ? provider : undefined)];
}

/** Reads reasoning: the text that people may read, and the unchanged item for the model that made it. */
function readReasoning(item: Fields): ThinkingBlock {
  return { type: "thinking", thinking: reasoningText(item), thinkingSignature: JSON.stringify(item) };
}

/** Returns the readable text of a reasoning item: its summary, else its full content; empty when it is encrypted. */
export function reasoningText(item: Fields): string {
  const texts = (field: string): string[] =>
    listOf(item[field]).flatMap((part) =>
      isRecord(part) && typeof part["text"] === "string" ? [part["text"]] : [],
    );
  const summary = texts("summary");
  return (summary.length > 0 ? summary : texts("content")).join("\n\n");
}

/** Returns the given fields without null values and without {@link BOOKKEEPING}. */
function extraFields(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([field, value]) => value !== null && !BOOKKEEPING.has(field)),
  );
}

/** Returns the names of fields that are left out and reported: {@link extraFields}, and `prompt_cache_breakpoint`. */
function unreadFields(fields: Fields): string[] {
  const unread = Object.keys(extraFields(fields));
  return fields["prompt_cache_breakpoint"] ? [...unread, "prompt_cache_breakpoint"] : unread;
}

/** Reads an image at an address, as {@link imageAt} does. `detail` is stored unless it is `auto`, the default. */
function readImage(url: string, format: FormatName, { detail, ...rest }: Fields): ContentBlock | undefined {
  return imageAt(url, format, (detail ?? "auto") === "auto" ? rest : { detail, ...rest });
}

/**
 * Reads the arguments of a call, a text of the model that should be the JSON of an object. An empty or missing text
 * becomes `{}`; any other value becomes `{value}`, with an issue.
 */
export function readArguments(text: unknown, path: string, issues: FormatIssues): Fields {
  const lost = (place: string) =>
    issues.misshapen(
      "value",
      `${path}.arguments.${place}`,
      "A value that a session cannot store is left out.",
    );
  const parsed = text === "" || text === undefined ? {} : plainJson(parsedJson(text), lost);
  if (isRecord(parsed)) return parsed;
  const message = "Arguments of a call are not a JSON object; they become one with `value`.";
  issues.add("changed", "arguments", path, message);
  return { value: parsed ?? text };
}

/**
 * Reads function tools in the form of the Responses API. Other tools are left out, with an issue: they belong to a
 * request, not to a conversation.
 */
function readOpenaiTools(tools: unknown, issues: FormatIssues): ToolDefinition[] {
  return listOf(tools).flatMap((tool, at): ToolDefinition[] => {
    const path = `tools[${at}]`;
    const { type, name, description, parameters, strict, ...rest } = isRecord(tool) ? tool : {};
    if (type !== "function" || typeof name !== "string") {
      issues.add("dropped", "tool", path, "A tool that is not a function cannot be kept in a session.");
      return [];
    }
    issues.dropped([...(strict === true ? ["strict"] : []), ...Object.keys(rest)], path);
    return [toolOf(name, description, parameters)];
  });
}
