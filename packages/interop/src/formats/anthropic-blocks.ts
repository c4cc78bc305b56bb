import {
  type AssistantMessage,
  type ContentBlock,
  isRecord,
  type StopReason,
  type Usage,
} from "@espalier/session-tree";
import type { FormatIssues } from "./conversation.ts";
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

const STOP_REASONS: ReadonlyMap<unknown, StopReason> = new Map([
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["pause_turn", "stop"],
  ["refusal", "error"],
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["tool_use", "toolUse"],
]);

/** Fields of a response that say nothing a session wants to know. */
const ENVELOPE = new Set(["id", "type", "stop_sequence"]);

/**
 * What an answer that came as a response of the API says beside its content: model, usage, why it ended. An answer in a
 * request says nothing of this. A refusal is an answer that failed: the API asks for it to be left out of what follows.
 * `unread` names the fields that were not understood.
 */
export function answerFacts(fields: Record<string, unknown>): {
  said: Partial<AssistantMessage>;
  unread: string[];
} {
  const { model, stop_reason, usage, ...rest } = fields;
  const stopReason = STOP_REASONS.get(stop_reason);
  const errorMessage = stopReason === "error" ? `The model stopped: ${String(stop_reason)}.` : undefined;
  return {
    said: {
      ...(typeof model === "string" ? { model } : {}),
      ...(stopReason ? { stopReason } : {}),
      ...(errorMessage === undefined ? {} : { errorMessage }),
      ...(isRecord(usage) ? { usage: readUsage(usage) } : {}),
    },
    unread: Object.keys(rest).filter((field) => !ENVELOPE.has(field) && rest[field] !== null),
  };
}

/** Tokens of one call. The API bills what it read from and wrote to its cache apart from `input_tokens`. */
function readUsage(usage: Record<string, unknown>): Usage {
  const count = (field: string): number => {
    const value = usage[field];
    return typeof value === "number" ? value : 0;
  };
  const counted = {
    input: count("input_tokens"),
    output: count("output_tokens"),
    cacheRead: count("cache_read_input_tokens"),
    cacheWrite: count("cache_creation_input_tokens"),
  };
  const { input, output, cacheRead, cacheWrite } = counted;
  return { ...counted, totalTokens: input + output + cacheRead + cacheWrite };
}
