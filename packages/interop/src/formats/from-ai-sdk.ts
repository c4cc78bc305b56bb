import {
  type AssistantMessage,
  type ContentBlock,
  fieldText,
  isRecord,
  type ThinkingBlock,
} from "@espalier/session-tree";
import { APIS, itemOf } from "./ai-sdk.ts";
import {
  ConversationBuilder,
  type ConversationOptions,
  type FormatIssues,
  type ImportedConversation,
  listOf,
  type PartReader,
  readContent,
  readInput,
} from "./conversation.ts";
import { imageAt, withNative } from "./native.ts";

const FORMAT = "ai-sdk";

type Fields = Record<string, unknown>;

/**
 * Reads a conversation of the AI SDK (`ModelMessage`s of version 5 and later) as neutral messages: `{system, messages,
 * tools}` or the list of messages. Never throws: any other value is skipped and listed in `issues`.
 *
 * The messages do not name the model. Without `options.model`, the provider is that of the first signature on
 * reasoning; an answer with another provider's reasoning is assigned to that provider.
 *
 * - bytes become base64, addresses text
 * - files, approvals, and calls that the provider ran are stored unchanged, and `toAiSdk` returns them
 * - `providerOptions` of a part are stored in its block; those of a whole message are left out, with an issue
 */
export function fromAiSdk(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const builder = new ConversationBuilder({ provider: "unknown" }, options);
  const request = builder.read(input, "messages");
  const messages = builder.messagesOf(request);
  const signed = providerOf(messages.flatMap(([{ content }]) => listOf(content)));
  const provider = options.model?.provider ?? signed ?? "unknown";
  const api = APIS.get(provider);
  builder.origin = { ...builder.origin, provider, ...(api === undefined ? {} : { api }) };
  const prompt = request["system"] ?? request["instructions"];
  if (typeof prompt === "string") builder.say("system", "system", () => prompt);
  for (const [message, path] of messages) readMessage(message, path, builder);
  // A `ToolSet` has code, which no session stores.
  const tools = [request["tools"] ?? []].flat();
  const message = "Tools are read from a list of names and JSON Schemas only.";
  return builder.finish(tools, message, ({ type: _type, inputSchema, ...tool }) => ({
    parameters: inputSchema,
    ...tool,
  }));
}

function readMessage({ role, content, ...rest }: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  issues.dropped(rest, path);
  const read = (readPart: PartReader) => readContent(content, `${path}.content`, issues, readPart);
  if (role === "assistant") {
    builder.answer(withJoinedReasoning(read(readAnswerPart)), originOf(listOf(content), builder));
  } else if (role === "tool") {
    const others = read((part, at) => readToolPart(part, at, builder));
    if (others.length > 0) builder.say("user", path, () => others);
  } else
    builder.say(role, path, () => {
      if (typeof content === "string") return content;
      if (role === "user") return read(readUserPart);
      return issues.misshapen("system", path, "A system message is not a text; it is left out.");
    });
}

/** Returns provider, model and API of an answer with another provider's reasoning; nothing for any other answer. */
function originOf(parts: unknown[], { origin }: ConversationBuilder): Partial<AssistantMessage> {
  const provider = providerOf(parts);
  if (provider === undefined || provider === origin.provider) return {};
  return { provider, model: "unknown", api: APIS.get(provider) ?? "ai-sdk" };
}

/**
 * Reads a part of a tool message. A result becomes a message; another part, such as an approval, is read as one of the
 * user's, because requests have it there.
 */
function readToolPart(part: Fields, path: string, builder: ConversationBuilder): ContentBlock[] {
  const { type, toolCallId, toolName, output, ...rest } = part;
  if (type !== "tool-result") return readUserPart(part, path, builder.issues);
  const { native, ...read } = readOutput(output, path, builder.issues);
  builder.result(withNative({ toolCallId, toolName, ...read }, FORMAT, { ...native, ...rest }), path);
  return [];
}

/** Options that identify the provider of reasoning. */
const MARKS: Record<string, string[]> = {
  anthropic: ["signature", "redactedData"],
  openai: ["itemId", "reasoningEncryptedContent"],
};

/** Returns the provider of the first marked reasoning among parts; undefined when there is none. */
function providerOf(parts: unknown[]): string | undefined {
  for (const part of parts) {
    const options = isRecord(part) && part["type"] === "reasoning" ? part["providerOptions"] : undefined;
    for (const [provider, marks] of Object.entries(MARKS)) {
      const own = isRecord(options) ? options[provider] : undefined;
      if (isRecord(own) && marks.some((mark) => own[mark] !== undefined)) return provider;
    }
  }
  return undefined;
}

/** Reads a part of a user message. */
function readUserPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, image, data, mediaType, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  const isFile = type === "file" && /^image\/[^*]/.test(fieldText(mediaType));
  const picture = isFile
    ? readPicture(bareData(data), mediaType, { type, ...rest })
    : readPicture(type === "image" ? image : undefined, mediaType, rest);
  if (picture) return [picture];
  return type === "text" ? issues.misshapen(type, path) : [issues.opaque(FORMAT, part, path)];
}

/**
 * Returns the base64 data or the address of a file; undefined when there is none. Version 7 also writes both as an
 * object that names its kind.
 */
function bareData(data: unknown): unknown {
  const kind = isRecord(data) && (data["type"] === "url" || data["type"] === "data") ? data["type"] : "";
  return (isRecord(data) ? data[kind] : data) || undefined;
}

/** Reads an image as base64 (which has no colon), or at an address; undefined for any other value. */
function readPicture(given: unknown, mediaType: unknown, rest: Fields): ContentBlock | undefined {
  if (typeof given !== "string") return undefined;
  const declared = typeof mediaType === "string" ? mediaType : "";
  if (!given.includes(":"))
    return withNative({ type: "image" as const, data: given, mimeType: declared }, FORMAT, rest);
  return imageAt(given, FORMAT, rest, declared === "" ? rest : { ...rest, mediaType: declared });
}

/** Reads a part of an answer. Only the provider can read calls that it ran itself. */
function readAnswerPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, toolCallId, toolName, input, providerExecuted, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  if (type === "reasoning" && typeof text === "string") {
    const { providerOptions, ...unread } = rest;
    issues.dropped(unread, path);
    return [readReasoning(text, providerOptions)];
  }
  if (type === "text" || type === "reasoning") return issues.misshapen(type, path);
  if (type !== "tool-call" || providerExecuted === true) return [issues.opaque(FORMAT, part, path)];
  if (typeof toolCallId !== "string" || typeof toolName !== "string")
    return issues.misshapen(type, path, "A call has no id or no name; it is left out.");
  const given = readInput(input, path, issues);
  return [withNative({ type: "toolCall", id: toolCallId, name: toolName, arguments: given }, FORMAT, rest)];
}

/** Text for a call that the user denied without a reason: the SDK's own text. */
const DENIED = "Tool execution denied.";

/**
 * Reads the `output` of a tool result: its content, and the fields that are needed to write it in the same form again. JSON
 * becomes its text, and so does a malformed output, with an issue.
 */
function readOutput(output: unknown, path: string, issues: FormatIssues) {
  const { type, value, ...rest } = isRecord(output) ? output : {};
  const beside = Object.keys(rest).length > 0 ? { output: rest } : {};
  if (type === "content" && Array.isArray(value)) {
    const content = readContent(value, `${path}.output.value`, issues, readPart);
    return { content, isError: false, native: beside };
  }
  const said = textOf(type, value, rest);
  if (said === undefined)
    issues.add("malformed", "output", path, "The output of a result does not have the shape of its type.");
  const text = said ?? (typeof output === "string" ? output : (JSON.stringify(output) ?? ""));
  const isText = type === "text" || type === "error-text";
  return {
    content: text === "" ? [] : [{ type: "text" as const, text }],
    isError: said !== undefined && type !== "text" && type !== "json",
    native: said === undefined ? {} : { ...(isText ? {} : { type }), ...beside },
  };
}

/** Returns the text of an output; undefined for one without the shape of its type. */
function textOf(type: unknown, value: unknown, { reason }: Fields): string | undefined {
  if ((type === "text" || type === "error-text") && typeof value === "string") return value;
  if (type === "json" || type === "error-json") return JSON.stringify(value);
  if (type !== "execution-denied") return undefined;
  return typeof reason === "string" ? reason : DENIED;
}

function readPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, data, mediaType, url, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  const isData = type === "image-data" || (type === "media" && fieldText(mediaType).startsWith("image/"));
  if (isData && typeof data === "string" && typeof mediaType === "string")
    return [withNative({ type: "image", data, mimeType: mediaType }, FORMAT, rest)];
  // Without a colon it is no address; a request would have it as base64.
  const isAddress = type === "image-url" && typeof url === "string" && url.includes(":");
  const picture = isAddress ? readPicture(url, mediaType, rest) : undefined;
  if (picture) return [picture];
  return type === "text" || isData || (type === "image-url" && !isAddress)
    ? issues.misshapen(type, path)
    : [issues.opaque(FORMAT, part, path)];
}

/**
 * Reads reasoning for a session. The SDK has a provider's signature among the part's options; a session has it in a
 * separate field, so that requests in any format can send it back. Other options are stored in the block.
 */
function readReasoning(text: string, options: unknown): ThinkingBlock {
  const block: ThinkingBlock = { type: "thinking", thinking: text };
  if (!isRecord(options)) return block;
  const { anthropic, openai } = options;
  const names = Object.keys(options);
  const { signature, redactedData } = isRecord(anthropic) ? anthropic : {};
  const redacted = typeof signature !== "string" && text === "";
  const thinkingSignature = redacted ? redactedData : signature;
  if (isRecord(anthropic) && typeof thinkingSignature === "string") {
    const signed = { ...block, thinkingSignature, ...(redacted ? { redacted } : {}) };
    const isWhole = isOnly(names, anthropic, [redacted ? "redactedData" : "signature"]);
    return isWhole ? signed : withNative(signed, FORMAT, { providerOptions: options });
  }
  if (isRecord(openai) && isOnly(names, openai, ["itemId", "reasoningEncryptedContent"])) {
    const { itemId, reasoningEncryptedContent: encrypted } = openai;
    if (typeof itemId === "string" && (encrypted === null || typeof encrypted === "string"))
      return openaiReasoning(itemId, text === "" ? [] : [{ type: "summary_text", text }], encrypted);
  }
  return withNative(block, FORMAT, { providerOptions: options });
}

/** Returns whether the options are of one provider and have no other fields than these. */
function isOnly(providers: string[], options: Fields, fields: string[]): boolean {
  return providers.length === 1 && Object.keys(options).every((field) => fields.includes(field));
}

/** Makes a block of thinking whose signature is a reasoning item of OpenAI. */
function openaiReasoning(
  id: string,
  summary: { type?: unknown; text: string }[],
  encrypted: string | null,
): ThinkingBlock {
  const item = { type: "reasoning", id, summary, encrypted_content: encrypted };
  const thinking = summary.map(({ text }) => text).join("\n\n");
  return { type: "thinking", thinking, thinkingSignature: JSON.stringify(item) };
}

/**
 * Joins blocks with text that continue a reasoning item: the SDK makes a part of each paragraph of an OpenAI summary.
 */
function withJoinedReasoning(blocks: readonly ContentBlock[]): ContentBlock[] {
  const joined: ContentBlock[] = [];
  for (const block of blocks) {
    const last = joined.at(-1);
    const a = last?.type === "thinking" ? itemOf(last) : undefined;
    const b = a && block.type === "thinking" ? itemOf(block) : undefined;
    const isSame = a && b && a.id === b.id && a.encrypted === b.encrypted;
    if (isSame && a.summary.length > 0 && b.summary.length > 0)
      joined[joined.length - 1] = openaiReasoning(a.id, [...a.summary, ...b.summary], a.encrypted);
    else joined.push(block);
  }
  return joined;
}
