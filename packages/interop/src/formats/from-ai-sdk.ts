import {
  type AssistantMessage,
  type ContentBlock,
  isRecord,
  type ThinkingBlock,
  type ToolDefinition,
} from "@espalier/session-tree";
import { itemOf } from "./ai-sdk.ts";
import {
  ConversationBuilder,
  type ConversationOptions,
  type FormatIssues,
  type ImportedConversation,
  listOf,
  readContent,
  readInput,
  toolOf,
} from "./conversation.ts";
import { imageAt, withNative } from "./native.ts";

const FORMAT = "ai-sdk";

type Fields = Record<string, unknown>;

/** APIs of the SDK's providers for which the form of reasoning depends on the API. */
const APIS: ReadonlyMap<string, string> = new Map([
  ["anthropic", "anthropic-messages"],
  ["openai", "openai-responses"],
]);

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
  const reading = new ConversationBuilder({ api: undefined, provider: "unknown" }, options);
  const request = reading.read(input, "messages");
  const messages = reading.messagesOf(request);
  const provider =
    options.model?.provider ??
    messages.map(([{ content }]) => providerOf(content)).find((found) => found !== undefined);
  const origin = { provider: provider ?? "unknown", api: APIS.get(provider ?? "") };
  const builder = new ConversationBuilder(origin, options, reading.issues);
  const prompt = request["system"] ?? request["instructions"];
  if (typeof prompt === "string") builder.system(prompt, "system");
  for (const [message, path] of messages) readMessage(message, path, builder);
  return builder.finish(readTools(request["tools"], builder));
}

function readMessage({ role, content, ...rest }: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const place = `${path}.content`;
  issues.dropped(Object.keys(rest), path);
  if (role === "system") {
    if (typeof content === "string") builder.system(content, path);
    else issues.misshapen("system", path, "A system message is not a text; it is left out.");
  } else if (role === "user") {
    builder.user(typeof content === "string" ? content : readContent(content, place, issues, readUserPart));
  } else if (role === "assistant") {
    const blocks: ContentBlock[] = [];
    for (const block of readContent(content, place, issues, readAnswerPart)) {
      const last = blocks.at(-1);
      const joined =
        last?.type === "thinking" && block.type === "thinking" ? joinedReasoning(last, block) : undefined;
      if (joined) blocks[blocks.length - 1] = joined;
      else blocks.push(block);
    }
    builder.answer(blocks, originOf(content, builder));
  } else if (role === "tool") {
    const others = readContent(content, place, issues, (part, at) => readToolPart(part, at, builder));
    if (others.length > 0) builder.user(others);
  } else issues.add("malformed", "role", path, "A message has an unknown role; it is left out.");
}

/** Returns provider, model and API of an answer with another provider's reasoning; nothing for any other answer. */
function originOf(content: unknown, builder: ConversationBuilder): Partial<AssistantMessage> {
  const provider = providerOf(content);
  if (provider === undefined || provider === builder.provider) return {};
  return { provider, model: "unknown", api: APIS.get(provider) ?? "ai-sdk" };
}

/**
 * Reads a part of a tool message. A result becomes a message; another part, such as an approval, is read as one of the
 * user's, because requests have it there.
 */
function readToolPart(part: Fields, path: string, builder: ConversationBuilder): ContentBlock[] {
  const { type, toolCallId, toolName, output, ...rest } = part;
  if (type !== "tool-result") return readUserPart(part, path, builder.issues);
  const { content, isError, native } = readOutput(output, path, builder.issues);
  const value = { ...native, ...rest };
  builder.result(typeof toolCallId === "string" ? toolCallId : "", content, isError, path, {
    native: Object.keys(value).length > 0 ? { format: FORMAT, value } : undefined,
    named: typeof toolName === "string" ? toolName : "",
  });
  return [];
}

/** Reads a list of `AiSdkTool`s. A `ToolSet` has code, which no session stores. */
function readTools(tools: unknown, { issues }: ConversationBuilder): ToolDefinition[] {
  if (tools === undefined) return [];
  return (Array.isArray(tools) ? tools : [tools]).flatMap((tool, at): ToolDefinition[] => {
    const path = `tools[${at}]`;
    const { name, description, inputSchema, type: _type, ...rest } = isRecord(tool) ? tool : {};
    if (typeof name === "string") {
      issues.dropped(Object.keys(rest), path);
      return [toolOf(name, description, inputSchema)];
    }
    issues.add("dropped", "tool", path, "Tools are read from a list of names and JSON Schemas only.");
    return [];
  });
}

/** Options that identify the provider of reasoning. */
const MARKS: Record<string, string[]> = {
  anthropic: ["signature", "redactedData"],
  openai: ["itemId", "reasoningEncryptedContent"],
};

/** Returns the provider of the first marked reasoning in a content; undefined when there is none. */
function providerOf(content: unknown): string | undefined {
  for (const part of listOf(content)) {
    const options = isRecord(part) && part["type"] === "reasoning" ? part["providerOptions"] : undefined;
    if (!isRecord(options)) continue;
    for (const [provider, marks] of Object.entries(MARKS)) {
      const own = options[provider];
      if (isRecord(own) && marks.some((mark) => own[mark] !== undefined)) return provider;
    }
  }
  return undefined;
}

/** Reads a part of a user message. */
function readUserPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, image, data, mediaType, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  const file = type === "file" && /^image\/[^*]/.test(String(mediaType)) ? bareData(data) : undefined;
  const picture =
    type === "image" ? readPicture(image, mediaType, rest) : readPicture(file, mediaType, { type, ...rest });
  if (picture) return [picture];
  return type === "text" ? issues.misshapen(type, path) : [issues.opaque(FORMAT, part, path)];
}

/**
 * Returns the base64 data or the address of a file; undefined for any other value. Version 7 also writes both as an object
 * that names its kind.
 */
function bareData(data: unknown): string | undefined {
  const bare = !isRecord(data)
    ? data
    : data["type"] === "url"
      ? data["url"]
      : data["type"] === "data"
        ? data["data"]
        : "";
  return typeof bare === "string" && bare !== "" ? bare : undefined;
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
  const { type, text, toolCallId, toolName, input, providerExecuted, providerOptions, ...rest } = part;
  const beside = { ...(providerOptions === undefined ? {} : { providerOptions }), ...rest };
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, beside)];
  if (type === "reasoning" && typeof text === "string") {
    issues.dropped(Object.keys(rest), path);
    return [readReasoning(text, providerOptions)];
  }
  if (type === "text" || type === "reasoning") return issues.misshapen(type, path);
  if (type !== "tool-call" || providerExecuted === true) return [issues.opaque(FORMAT, part, path)];
  if (typeof toolCallId !== "string" || typeof toolName !== "string")
    return issues.misshapen(type, path, "A call has no id or no name; it is left out.");
  const given = readInput(input, path, issues);
  return [withNative({ type: "toolCall", id: toolCallId, name: toolName, arguments: given }, FORMAT, beside)];
}

/** Text for a call that the user denied without a reason: the SDK's own text. */
const DENIED = "Tool execution denied.";

/** Content of a result, and the fields that are needed to write it in the same form again. */
interface ReadOutput {
  content: ContentBlock[];
  isError: boolean;
  native: Fields;
}

/** Reads the `output` of a tool result. JSON becomes its text, and so does a malformed output, with an issue. */
function readOutput(output: unknown, path: string, issues: FormatIssues): ReadOutput {
  const { type, value, ...rest } = isRecord(output) ? output : {};
  const text = (said: string): ContentBlock[] => (said === "" ? [] : [{ type: "text", text: said }]);
  const beside = Object.keys(rest).length > 0 ? { output: rest } : {};
  if ((type === "text" || type === "error-text") && typeof value === "string")
    return { content: text(value), isError: type === "error-text", native: beside };
  if ((type === "json" || type === "error-json") && value !== undefined)
    return {
      content: text(JSON.stringify(value)),
      isError: type === "error-json",
      native: { type, ...beside },
    };
  if (type === "execution-denied") {
    const said = typeof rest["reason"] === "string" ? rest["reason"] : DENIED;
    return { content: text(said), isError: true, native: { type, ...beside } };
  }
  if (type === "content" && Array.isArray(value)) {
    const content = readContent(value, `${path}.output.value`, issues, readPart);
    return { content, isError: false, native: beside };
  }
  issues.add("malformed", "output", path, "The output of a result does not have the shape of its type.");
  return {
    content: text(typeof output === "string" ? output : (JSON.stringify(output) ?? "")),
    isError: false,
    native: {},
  };
}

function readPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, data, mediaType, url, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  const isData = type === "image-data" || (type === "media" && String(mediaType).startsWith("image/"));
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
  if (isRecord(anthropic) && typeof anthropic["signature"] === "string") {
    const signed = { ...block, thinkingSignature: anthropic["signature"] };
    return isOnly(names, anthropic, ["signature"])
      ? signed
      : withNative(signed, FORMAT, { providerOptions: options });
  }
  if (isRecord(anthropic) && typeof anthropic["redactedData"] === "string" && text === "") {
    const signed = { ...block, thinkingSignature: anthropic["redactedData"], redacted: true };
    return isOnly(names, anthropic, ["redactedData"])
      ? signed
      : withNative(signed, FORMAT, { providerOptions: options });
  }
  if (isRecord(openai) && isOnly(names, openai, ["itemId", "reasoningEncryptedContent"])) {
    const { itemId, reasoningEncryptedContent: encrypted } = openai;
    if (typeof itemId === "string" && (encrypted === null || typeof encrypted === "string")) {
      const summary = text === "" ? [] : [{ type: "summary_text", text }];
      const item = { type: "reasoning", id: itemId, summary, encrypted_content: encrypted };
      return { ...block, thinkingSignature: JSON.stringify(item) };
    }
  }
  return withNative(block, FORMAT, { providerOptions: options });
}

/** Returns whether the options are of one provider and have no other fields than these. */
function isOnly(providers: string[], options: Fields, fields: string[]): boolean {
  return providers.length === 1 && Object.keys(options).every((field) => fields.includes(field));
}

/**
 * Joins two blocks if the second continues the reasoning item of the first: the SDK makes a part of each paragraph of
 * an OpenAI summary. Undefined for other blocks, and when one of both has no text.
 */
function joinedReasoning(first: ThinkingBlock, second: ThinkingBlock): ThinkingBlock | undefined {
  const [a, b] = [itemOf(first), itemOf(second)];
  if (!a || !b || a.id !== b.id || a.encrypted !== b.encrypted) return undefined;
  if (a.summary.length === 0 || b.summary.length === 0) return undefined;
  const item = {
    type: "reasoning",
    id: a.id,
    summary: [...a.summary, ...b.summary],
    encrypted_content: a.encrypted,
  };
  const thinking = `${first.thinking}\n\n${second.thinking}`;
  return { type: "thinking", thinking, thinkingSignature: JSON.stringify(item) };
}
