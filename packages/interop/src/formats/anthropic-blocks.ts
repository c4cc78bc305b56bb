import { type ContentBlock, isRecord } from "@espalier/session-tree";
import type { FormatIssues } from "./format-issue.ts";
import { nativeBlock, stored, withNative } from "./native.ts";

const FORMAT = "anthropic";

/** Types that have a shape of their own here: a block of such a type that is of another shape cannot be sent back. */
const COMMON = new Set(["text", "image", "thinking", "redacted_thinking", "tool_use", "tool_result"]);

type Fields = Record<string, unknown>;

/** The blocks of a content that is a list, each with its place; what is no block is told. */
export function blocksOf(content: unknown, path: string, issues: FormatIssues): [Fields, string][] {
  if (!Array.isArray(content)) {
    issues.add("malformed", "content", path, "The content of a message is neither text nor a list.");
    return [];
  }
  return content.flatMap((block, at): [Fields, string][] => {
    const place = `${path}.content[${at}]`;
    if (isRecord(block) && typeof block["type"] === "string") return [[block, place]];
    issues.add("malformed", "block", place, "A block has no type; it is left out.");
    return [];
  });
}

/** A block of a user message or of a result. */
export function readBlock(block: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, cache_control, ...fields } = block;
  if (cache_control) issues.dropped(["cache_control"], path);
  const { text, source, ...rest } = fields;
  if (type === "text" && typeof text === "string")
    return [withNative({ type, text }, FORMAT, withoutNulls(rest))];
  if (type === "image" && isRecord(source)) {
    const { media_type, data, url } = source;
    if (source["type"] === "base64" && typeof data === "string" && typeof media_type === "string")
      return [withNative({ type, data, mimeType: media_type }, FORMAT, withoutNulls(rest))];
    if (source["type"] === "url" && typeof url === "string")
      return [stored(withNative({ type: "imageUrl", url }, FORMAT, withoutNulls(rest)))];
  } else if (COMMON.has(String(type))) {
    issues.add("malformed", String(type), path, "A block has not the shape of its type; it is left out.");
    return [];
  }
  issues.opaque(type, path);
  return [nativeBlock(FORMAT, { type, ...fields })];
}

/** A block of an answer. What a server tool asked and said is a block that only this format has. */
export function readAnswerBlock(block: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, cache_control, ...fields } = block;
  if (type === "thinking" && typeof fields["thinking"] === "string") {
    const { thinking, signature, ...rest } = fields;
    issues.dropped(droppedFields(block, rest), path);
    const thought = { type, thinking: fields["thinking"] } as const;
    if (typeof signature === "string") return [{ ...thought, thinkingSignature: signature }];
    issues.add("changed", "thinking", path, "Thinking without a signature is kept; requests leave it out.");
    return [thought];
  }
  if (type === "redacted_thinking" && typeof fields["data"] === "string") {
    const { data, ...rest } = fields;
    issues.dropped(droppedFields(block, rest), path);
    return [{ type: "thinking", thinking: "", thinkingSignature: fields["data"], redacted: true }];
  }
  const { id, name, input, ...rest } = fields;
  if (type !== "tool_use" || typeof id !== "string" || typeof name !== "string")
    return readBlock(block, path, issues);
  if (cache_control) issues.dropped(["cache_control"], path);
  if (!isRecord(input))
    issues.add("changed", "input", path, "The input of a call is no object; it becomes one.");
  const given = isRecord(input) ? input : input === undefined ? {} : { value: input };
  return [withNative({ type: "toolCall", id, name, arguments: given }, FORMAT, withoutNulls(rest))];
}

/** Fields of a block that are left out: those for caching, and those that are not understood. */
export function droppedFields(block: Fields, rest: Fields): string[] {
  return [...(block["cache_control"] ? ["cache_control"] : []), ...Object.keys(withoutNulls(rest))];
}

/** The API writes null where a field is not used. */
function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}
