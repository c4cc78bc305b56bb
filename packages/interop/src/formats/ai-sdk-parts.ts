import { type ContentBlock, isRecord } from "@espalier/session-tree";
import { readReasoning } from "./ai-sdk-reasoning.ts";
import { parseDataUrl } from "./data-url.ts";
import type { FormatIssues } from "./format-issue.ts";
import { nativeBlock, stored, withNative } from "./native.ts";

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
