import {
  type AssistantMessage,
  type ContentBlock,
  fieldText,
  isRecord,
  type OpenaiChatRequest,
  type OpenaiResponsesRequest,
  openaiChatFormat,
  openaiResponsesFormat,
  parsedJson,
  type ToolCallBlock,
} from "@espalier/session-tree";
import {
  ConversationBuilder,
  type ConversationOptions,
  type ConversationSource,
  type FormatIssues,
  type ImportedConversation,
  listOf,
  readContent,
  type WriteOptions,
  writeRequest,
} from "./conversation.ts";
import { type FormatName, imageAt, type NativeTies, nativeFormat, refusesIn, withNative } from "./native.ts";

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
  return builder.finish(request["tools"], NO_FUNCTION, (tool) =>
    readTool(isRecord(tool["function"]) ? { ...tool["function"], type: tool["type"] } : tool),
  );
}

function readChatMessage(
  { role, content, ...rest }: Fields,
  path: string,
  builder: ConversationBuilder,
): void {
  const { issues } = builder;
  const read = () => readContent(content, `${path}.content`, issues, readChatPart);
  if (role === "assistant") {
    const { refusal, tool_calls, ...unread } = rest;
    const blocks = [
      ...takeReasoning(unread, path, issues),
      ...(content === null || content === undefined ? [] : read()),
      ...(typeof refusal === "string" ? [refused(refusal)] : []),
      ...readContent(listOf(tool_calls), `${path}.tool_calls`, issues, readChatCall),
    ];
    issues.dropped(unread, path);
    builder.answer(blocks, refusalFacts(blocks, CHAT));
  } else if (role === "tool") {
    const { tool_call_id: toolCallId, ...unread } = rest;
    issues.dropped(unread, path);
    builder.result({ toolCallId, content: read(), isError: false }, path);
  } else {
    issues.dropped(rest, path);
    builder.say(role, path, () => (typeof content === "string" ? content : read()));
  }
}

/** Removes the reasoning from the fields of an answer, and returns it. */
function takeReasoning(fields: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  for (const field of REASONING_FIELDS) {
    const text = fields[field];
    delete fields[field];
    if (typeof text !== "string" || text === "") continue;
    issues.add("changed", field, path, "Reasoning is kept; requests of this API cannot have it.");
    // Other writers of such sessions also put the name of the field in place of a signature.
    return [{ type: "thinking", thinking: text, thinkingSignature: field }];
  }
  return [];
}

function readChatCall(call: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { id, type } = call;
  const tool = call[String(type)];
  if (typeof id === "string" && isRecord(tool) && typeof tool["name"] === "string") {
    const named = { type: "toolCall", id, name: tool["name"] } as const;
    if (type === "function") return [{ ...named, arguments: readArguments(tool["arguments"], path, issues) }];
    if (type === "custom")
      return [withNative({ ...named, arguments: { input: fieldText(tool["input"]) } }, CHAT, { type })];
  }
  return issues.misshapen("tool_calls", path, "A call does not have the shape of its type; it is left out.");
}

function readChatPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { prompt_cache_breakpoint, ...fields } = part;
  issues.dropped({ prompt_cache_breakpoint }, path);
  const { type, text, refusal, image_url } = fields;
  if (type === "text" && typeof text === "string") return [{ type, text }];
  if (type === "refusal" && typeof refusal === "string") return [refused(refusal)];
  const { url, ...rest } = isRecord(image_url) ? image_url : {};
  const image = type === "image_url" ? readImage(url, CHAT, rest) : undefined;
  if (image) return [image];
  if (type === "text" || type === "refusal" || (type === "image_url" && typeof url !== "string"))
    return issues.misshapen(type, path);
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
  const { instructions, output } = request;
  if (typeof instructions === "string") builder.say("system", "instructions", () => instructions);
  if (Array.isArray(output)) readItems(output, true, builder);
  else readItems(request["input"], false, builder);
  return builder.finish(request["tools"], NO_FUNCTION, readTool);
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

/**
 * Reads items in order; a model's items are collected until another item follows.
 *
 * @param isResponse true: all items are of one answer, also those that a client can give, such as the result of a hosted tool
 */
function readItems(input: unknown, isResponse: boolean, builder: ConversationBuilder): void {
  if (typeof input === "string") builder.say("user", "input", () => input);
  else if (!Array.isArray(input)) builder.issues.add("malformed", "input", "", "There is no list of items.");
  let answer: ContentBlock[] = [];
  const endAnswer = () => {
    if (answer.length > 0) builder.answer(answer, refusalFacts(answer, RESPONSES));
    answer = [];
  };
  for (const [at, item] of listOf(input).entries()) {
    const path = `input[${at}]`;
    const said = readAnswerItem(item, path, isResponse, builder);
    for (const block of said ?? []) answer.push(block);
    if (said) continue;
    endAnswer();
    readGivenItem(item as Fields, path, builder);
  }
  endAnswer();
}

const isMessage = ({ type, role }: Fields): boolean =>
  type === "message" || (type === undefined && role !== undefined);

const isOutput = ({ type, call_id }: Fields): boolean =>
  typeof call_id === "string" && (type === "function_call_output" || type === "custom_tool_call_output");

/** Reads an item of a model; returns no blocks for an item that is left out, undefined for one that the client gave. */
function readAnswerItem(
  item: unknown,
  path: string,
  isResponse: boolean,
  { issues, origin: { provider } }: ConversationBuilder,
): ContentBlock[] | undefined {
  if (!isRecord(item)) return issues.misshapen("item", path, "An item is not an object; it is left out.");
  const { type } = item;
  if (isMessage(item)) {
    const { type: _type, role, content, ...rest } = item;
    if (role !== "assistant") return undefined;
    const blocks = readItemContent(content, `${path}.content`, issues, provider);
    return blocks.map((block) => (block.type === "text" ? withExtra(block, rest) : block));
  }
  if (type === "reasoning") {
    if (typeof item["encrypted_content"] !== "string") {
      const message = "Reasoning without encrypted content is kept; requests leave it out.";
      issues.add("changed", "reasoning", path, message);
    }
    return [{ type: "thinking", thinking: reasoningText(item), thinkingSignature: JSON.stringify(item) }];
  }
  const call = readItemCall(item, path, issues);
  if (call) {
    const { type: _type, call_id, name, arguments: _given, input, ...rest } = item;
    return [withExtra(call, rest)];
  }
  if (isOutput(item)) return undefined;
  if (type === "item_reference" || typeof type !== "string")
    return issues.misshapen("item", path, "An item has no content that could be kept; it is left out.");
  return isGiven(item) && !isResponse ? undefined : [issues.opaque(RESPONSES, item, path, provider)];
}

/** Reads an item that is not of an answer. */
function readGivenItem(item: Fields, path: string, builder: ConversationBuilder): void {
  const { issues, origin } = builder;
  const read = (given: unknown, field: string) =>
    readItemContent(given, `${path}.${field}`, issues, origin.provider);
  if (isMessage(item)) {
    const { type: _type, role, content, ...rest } = item;
    builder.say(role, path, () => (typeof content === "string" ? content : read(content, "content")));
    issues.dropped(unreadFields(rest), path);
  } else if (isOutput(item)) {
    const { type: _type, call_id: toolCallId, output, ...rest } = item;
    issues.dropped(unreadFields(rest), path);
    const given = isRecord(output) ? JSON.stringify(output) : (output ?? "");
    builder.result({ toolCallId, content: read(given, "output"), isError: false }, path);
  } else builder.say("user", path, () => [issues.opaque(RESPONSES, item, path, origin.provider)]);
}

/** Reads a call of a client's tool; undefined for any other item. */
export function readItemCall(item: Fields, path: string, issues: FormatIssues): ToolCallBlock | undefined {
  const { type, call_id: id, name, arguments: given, input } = item;
  if (typeof id !== "string" || typeof name !== "string") return undefined;
  if (type === "function_call")
    return { type: "toolCall", id, name, arguments: readArguments(given, path, issues) };
  if (type !== "custom_tool_call") return undefined;
  const call = { type: "toolCall", id, name, arguments: { input: fieldText(input) } } as const;
  return withNative(call, RESPONSES, { type });
}

/** Adds the fields of an item to those that only this API has, such as the `phase` of a message. */
function withExtra(block: ContentBlock, fields: Fields): ContentBlock {
  const { prompt_cache_breakpoint, ...extra } = unreadFields(fields);
  const known = (block as { native?: { value: Fields } }).native?.value;
  return withNative(block, RESPONSES, { ...known, ...extra });
}

/** Returns the ids of a call that is not of a function, of its output, or of the program that made a call. */
function tiesOf({ type, call_id, id, approval_request_id, caller }: Fields): NativeTies {
  if (type === "mcp_approval_request") return { question: id };
  if (type === "mcp_approval_response") return { result: approval_request_id };
  const by = isRecord(caller) ? (caller["caller_id"] ?? undefined) : undefined;
  // The server's own searches have no `call_id`. The output of a local shell names its call by the `id` of the item.
  if (typeof call_id !== "string" || fieldText(type).startsWith("local_shell")) return { caller: by };
  return fieldText(type).endsWith("_output") ? { result: call_id } : { call: call_id, caller: by };
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

/** Returns the fields without those by which the API finds stored items: a conversation that is sent whole has none. */
const unreadFields = ({ id, status, logprobs, ...rest }: Fields): Fields => rest;

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
    issues.dropped({ annotations: listOf(annotations)[0], ...unreadFields(rest) }, path);
    return [{ type: "text", text }];
  }
  if (type === "refusal" && typeof refusal === "string")
    return [withNative({ type: "text", text: refusal }, RESPONSES, { type })];
  if (type === "input_image" && typeof image_url === "string") {
    const { prompt_cache_breakpoint, ...fields } = rest;
    issues.dropped({ prompt_cache_breakpoint }, path);
    return [readImage(image_url, RESPONSES, fields) ?? issues.opaque(RESPONSES, part, path)];
  }
  // Parts of a client begin with `input_`. A separate item has another beginning, and must not be confused with a part.
  if (type === "input_text" || !fieldText(type).startsWith("input_")) {
    const message = "A part has a type or shape that no message can have; it is left out.";
    return issues.misshapen("part", path, message);
  }
  // A file id names a file that this provider stored.
  return [issues.opaque(RESPONSES, part, path, part["file_id"] ? provider : undefined)];
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

/** Reads an image at an address, as {@link imageAt} does. `detail` is stored unless it is `auto`, the default. */
function readImage(url: unknown, format: FormatName, { detail, ...rest }: Fields): ContentBlock | undefined {
  return imageAt(url, format, (detail ?? "auto") === "auto" ? rest : { detail, ...rest });
}

/**
 * Reads the arguments of a call, a text of the model that should be the JSON of an object. An empty or missing text
 * becomes `{}`; any other value becomes `{value}`, with an issue.
 */
export function readArguments(text: unknown, path: string, issues: FormatIssues): Fields {
  const given = text === "" || text === undefined ? {} : parsedJson(text);
  const parsed = issues.plain(given, `${path}.arguments.`);
  if (isRecord(parsed)) return parsed;
  const message = "Arguments of a call are not a JSON object; they become one with `value`.";
  issues.add("changed", "arguments", path, message);
  return { value: parsed ?? text };
}

/** Reads a function tool in the form of the Responses API; other tools belong to a request, not to a conversation. */
const readTool = ({ type, strict, ...tool }: Fields): Fields =>
  type === "function" ? { ...tool, strict: strict || null } : {};

const NO_FUNCTION = "A tool that is not a function cannot be kept in a session.";
