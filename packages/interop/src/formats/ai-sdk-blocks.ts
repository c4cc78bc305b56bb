import {
  type AssistantMessage,
  type ContentBlock,
  isRecord,
  type ThinkingBlock,
} from "@espalier/session-tree";
import type { FormatIssues } from "./conversation.ts";
import { nativeBlock, nativeFor, parseDataUrl, parsedJson, stored, withNative } from "./native.ts";
import { partsOf } from "./openai-blocks.ts";

/** What JSON can say; an undefined field is not written. */
export type JsonValue =
  | null
  | string
  | number
  | boolean
  | JsonValue[]
  | { [key: string]: JsonValue | undefined };

/** Options by the name of the provider that reads them. */
export type AiSdkOptions = Record<string, Record<string, JsonValue>>;

/** Text that somebody said. */
export interface AiSdkText {
  type: "text";
  text: string;
  providerOptions?: AiSdkOptions;
}

/** A picture that a user sent. */
export interface AiSdkImage {
  type: "image";
  /** Base64, or an address. */
  image: string;
  /** As `image/png`; the SDK looks at the bytes where it is absent. */
  mediaType?: string;
  providerOptions?: AiSdkOptions;
}

/** A model's thinking; its signature is in `providerOptions`. */
export interface AiSdkReasoning {
  type: "reasoning";
  text: string;
  providerOptions?: AiSdkOptions;
}

/** A call to a tool; its result is in the `tool` message behind the answer. */
export interface AiSdkCall {
  type: "tool-call";
  toolCallId: string;
  toolName: string;
  /** The arguments, parsed. */
  input: unknown;
  providerOptions?: AiSdkOptions;
}

/** How a picture in a result is marked: `image-data` since version 6, `media` in version 5. */
export type AiSdkMediaType = "image-data" | "media";

/** What a tool gave back. */
export interface AiSdkResult<Type extends AiSdkMediaType = "image-data"> {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  output: AiSdkOutput<Type>;
  providerOptions?: AiSdkOptions;
}

/** A result as text, one that failed as `error-text`, one with pictures as a list. */
export type AiSdkOutput<Type extends AiSdkMediaType = "image-data"> =
  | { type: "text" | "error-text"; value: string }
  | { type: "content"; value: (AiSdkText | AiSdkMedia<Type>)[] };

/** A picture in a result, base64. */
export interface AiSdkMedia<Type extends AiSdkMediaType = "image-data"> {
  type: Type;
  data: string;
  mediaType: string;
}

/** A `ModelMessage` of the AI SDK (5 and later), as far as requests are made of it. */
export type AiSdkMessage<Type extends AiSdkMediaType = "image-data"> =
  | { role: "user"; content: (AiSdkText | AiSdkImage)[] }
  | { role: "assistant"; content: (AiSdkText | AiSdkReasoning | AiSdkCall)[] }
  | { role: "tool"; content: AiSdkResult<Type>[] };

/** A tool without code; give `inputSchema` to the SDK's `jsonSchema()`. */
export interface AiSdkTool {
  name: string;
  description?: string;
  /** A JSON Schema. */
  inputSchema: Record<string, unknown>;
}

/** What `generateText` and `streamText` take of a conversation. */
export interface AiSdkRequest<Type extends AiSdkMediaType = "image-data"> {
  system?: string;
  messages: AiSdkMessage<Type>[];
  tools?: AiSdkTool[];
}

const FORMAT = "ai-sdk";

type Fields = Record<string, unknown>;

/** Which options of a provider are a mark of its own reasoning. */
const MARKS: Record<string, string[]> = {
  anthropic: ["signature", "redactedData"],
  openai: ["itemId", "reasoningEncryptedContent"],
};

/** The provider whose reasoning an answer holds; undefined when it holds none that is marked. */
export function providerOf(message: { content?: unknown }): string | undefined {
  for (const part of Array.isArray(message.content) ? message.content : []) {
    const options = isRecord(part) && part["type"] === "reasoning" ? part["providerOptions"] : undefined;
    if (!isRecord(options)) continue;
    for (const [provider, marks] of Object.entries(MARKS)) {
      const own = options[provider];
      if (isRecord(own) && marks.some((mark) => own[mark] !== undefined)) return provider;
    }
  }
  return undefined;
}

/** A part of a user message. */
export function readUserPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, image, data, mediaType, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  if (type === "image" && typeof image === "string") return [readPicture(image, mediaType, rest)];
  const file = type === "file" && /^image\/[^*]/.test(String(mediaType)) ? bareData(data) : undefined;
  if (file !== undefined) return [readPicture(file, mediaType, { type, ...rest })];
  if (type === "text") {
    issues.add("malformed", "text", path, "A part has not the shape of its type; it is left out.");
    return [];
  }
  issues.opaque(type, path);
  return [nativeBlock(FORMAT, part)];
}

/** Bytes or address of a file as text; version 7 also writes them as an object that says which it is. */
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

/** A picture as base64, at an address, or both in one: the SDK takes all three as text. */
function readPicture(given: string, mediaType: unknown, rest: Fields): ContentBlock {
  const declared = typeof mediaType === "string" ? mediaType : "";
  const inline = parseDataUrl(given);
  if (inline) return withNative({ type: "image", ...inline }, FORMAT, rest);
  if (!/^https?:/i.test(given))
    return withNative({ type: "image", data: given, mimeType: declared }, FORMAT, rest);
  const fields = declared === "" ? rest : { ...rest, mediaType: declared };
  return stored(withNative({ type: "imageUrl", url: given }, FORMAT, fields));
}

/** A part of an answer. What the provider ran itself is for the provider alone. */
export function readAnswerPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, toolCallId, toolName, input, providerExecuted, providerOptions, ...rest } = part;
  const beside = { ...(providerOptions === undefined ? {} : { providerOptions }), ...rest };
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, beside)];
  if (type === "reasoning" && typeof text === "string") {
    issues.dropped(Object.keys(rest), path);
    return [readReasoning(text, providerOptions)];
  }
  if (type === "text" || type === "reasoning") {
    issues.add("malformed", type, path, "A part has not the shape of its type; it is left out.");
    return [];
  }
  if (type !== "tool-call" || providerExecuted === true) {
    issues.opaque(type, path);
    return [nativeBlock(FORMAT, part)];
  }
  if (typeof toolCallId !== "string" || typeof toolName !== "string") {
    issues.add("malformed", type, path, "A call has no id or no name; it is left out.");
    return [];
  }
  if (!isRecord(input))
    issues.add("changed", "input", path, "The input of a call is no object; it becomes one.");
  const given = isRecord(input) ? input : input === undefined ? {} : { value: input };
  return [withNative({ type: "toolCall", id: toolCallId, name: toolName, arguments: given }, FORMAT, beside)];
}

/** What the model reads where the user forbade a call and gave no reason: the SDK's own words. */
const DENIED = "Tool execution denied.";

/** What a tool gave, as content of a result, and what has to be known to write it in the same way again. */
interface ReadOutput {
  content: ContentBlock[];
  isError: boolean;
  native: Fields;
}

/** Reads the `output` of a tool result. JSON becomes its text. */
export function readOutput(output: unknown, path: string, issues: FormatIssues): ReadOutput {
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
    const content = partsOf(value, `${path}.output.value`, issues).flatMap(([part, place]) =>
      readPart(part, place, issues),
    );
    return { content, isError: false, native: beside };
  }
  issues.add("malformed", "output", path, "The output of a result has not the shape of its type.");
  return {
    content: text(typeof output === "string" ? output : (JSON.stringify(output) ?? "")),
    isError: false,
    native: {},
  };
}

function readPart(part: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, text, data, mediaType, url, ...rest } = part;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  const isPicture = type === "image-data" || (type === "media" && String(mediaType).startsWith("image/"));
  if (isPicture && typeof data === "string" && typeof mediaType === "string")
    return [withNative({ type: "image", data, mimeType: mediaType }, FORMAT, rest)];
  if (type === "image-url" && typeof url === "string")
    return [stored(withNative({ type: "imageUrl", url }, FORMAT, rest))];
  if (type === "text" || isPicture || type === "image-url") {
    issues.add("malformed", String(type), path, "A part has not the shape of its type; it is left out.");
    return [];
  }
  issues.opaque(type, path);
  return [nativeBlock(FORMAT, part)];
}

/**
 * Reasoning as sessions keep it. The SDK has a provider's signature among the part's options; a session has it in a
 * field of its own, so that it goes back whichever way the next request is made. What is more than that stays beside it.
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

/** True when the options are of one provider, and these fields all that it says. */
function isOnly(providers: string[], options: Fields, fields: string[]): boolean {
  return providers.length === 1 && Object.keys(options).every((field) => fields.includes(field));
}

/**
 * Two blocks as one, where the second goes on with the item of the first: the SDK makes a part of each paragraph of an
 * OpenAI summary. Undefined for any others.
 */
export function joinedReasoning(first: ThinkingBlock, second: ThinkingBlock): ThinkingBlock | undefined {
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

/** Whether the SDK can hand this block to the model that made it. */
export function acceptsReasoning(block: ThinkingBlock, { provider, api }: AssistantMessage): boolean {
  if (typeof block.thinking !== "string" || !block.thinking.isWellFormed()) return false;
  const native = nativeFor(block, FORMAT);
  // JSON writes half a character as an escape, and nothing else that begins so.
  if (native) return !JSON.stringify(native).includes("\\ud");
  if (itemOf(block)) return isOpenai(provider, api);
  if (typeof block.thinkingSignature === "string" && block.thinkingSignature.trim() !== "")
    return block.thinkingSignature.isWellFormed() && isAnthropic(provider, api);
  // Models that do not sign: the SDK sends their reasoning as text to those that take it.
  return block.redacted !== true && !isOpenai(provider, api) && !isAnthropic(provider, api);
}

const isAnthropic = (provider: unknown, api: unknown): boolean =>
  typeof api === "string" ? api === "anthropic-messages" : provider === "anthropic";

const isOpenai = (provider: unknown, api: unknown): boolean =>
  typeof api === "string" ? /^openai.*responses/.test(api) : provider === "openai";

/** The parts of one block. */
export function renderReasoning(block: ThinkingBlock): AiSdkReasoning[] {
  const { thinking, thinkingSignature, redacted } = block;
  const part = (text: string, providerOptions?: AiSdkOptions): AiSdkReasoning => ({
    type: "reasoning",
    text,
    ...(providerOptions ? { providerOptions } : {}),
  });
  const native = nativeFor(block, FORMAT)?.value["providerOptions"];
  if (native) return [part(thinking, native as AiSdkOptions)];
  const item = itemOf(block);
  if (item) {
    const openai = { itemId: item.id, reasoningEncryptedContent: item.encrypted };
    return (item.summary.length > 0 ? item.summary : [{ text: "" }]).map(({ text }) =>
      part(text, { openai }),
    );
  }
  if (thinkingSignature === undefined) return [part(thinking)];
  return redacted === true
    ? [part("", { anthropic: { redactedData: thinkingSignature } })]
    : [part(thinking, { anthropic: { signature: thinkingSignature } })];
}

/** The reasoning item of OpenAI that a signature holds; undefined for any other signature. */
function itemOf({
  thinkingSignature,
}: ThinkingBlock): { id: string; summary: { text: string }[]; encrypted: string | null } | undefined {
  const item = thinkingSignature?.startsWith("{") ? parsedJson(thinkingSignature) : undefined;
  if (!isRecord(item) || item["type"] !== "reasoning" || typeof item["id"] !== "string") return undefined;
  const { id, summary, encrypted_content: encrypted } = item;
  return {
    id,
    summary: (Array.isArray(summary) ? summary : []).filter(
      (part): part is { text: string } => isRecord(part) && typeof part["text"] === "string",
    ),
    encrypted: typeof encrypted === "string" ? encrypted : null,
  };
}
