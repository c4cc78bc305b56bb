import {
  type AssistantMessage,
  type ContentBlock,
  isRecord,
  type ThinkingBlock,
  type ToolDefinition,
} from "@espalier/session-tree";
import type { FormatIssues } from "./conversation.ts";
import {
  type FormatName,
  nativeBlock,
  parseDataUrl,
  parsedJson,
  plainJson,
  refusesIn,
  stored,
  withNative,
} from "./native.ts";

const FORMAT = "openai-responses";

type Fields = Record<string, unknown>;

/** Fields by which the API finds what it stored, and marks for one request: a conversation that is sent whole has none. */
const BOOKKEEPING = new Set(["id", "status", "prompt_cache_breakpoint", "logprobs"]);

/** Items that stand where the user's turn does, though their type does not end in `_output`. */
const GIVEN = new Set([
  "compaction",
  "compaction_summary",
  "context_compaction",
  "compaction_trigger",
  "mcp_approval_response",
  "additional_tools",
]);

/** True for an item that the client gave or that stands for what was said before it; the others are a model's. */
export function isGiven(item: Fields): boolean {
  const type = String(item["type"]);
  return type.endsWith("_output") || GIVEN.has(type);
}

/** Facts of an answer that refuses, as Anthropic's is told: it failed. One that calls tools did not. */
export const refusalFacts = (
  blocks: readonly ContentBlock[],
  format: FormatName,
): Partial<AssistantMessage> =>
  refusesIn(blocks, format) && !blocks.some(({ type }) => type === "toolCall")
    ? { stopReason: "error", errorMessage: "The model stopped: refusal." }
    : {};

/** The content of a message or of an output. */
export function readContent(
  content: unknown,
  path: string,
  issues: FormatIssues,
  provider: string,
): ContentBlock[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) {
    issues.add("malformed", "content", path, "The content of an item is neither text nor a list.");
    return [];
  }
  return partsOf(content, path, issues).flatMap(([part, place]) => readPart(part, place, issues, provider));
}

function readPart(part: Fields, path: string, issues: FormatIssues, provider: string): ContentBlock[] {
  const { type, text, refusal, image_url, annotations, ...rest } = part;
  if ((type === "input_text" || type === "output_text") && typeof text === "string") {
    if (Array.isArray(annotations) && annotations.length > 0) issues.dropped(["annotations"], path);
    issues.dropped(unreadFields(rest), path);
    return [{ type: "text", text }];
  }
  if (type === "refusal" && typeof refusal === "string")
    return [withNative({ type: "text", text: refusal }, FORMAT, { type })];
  if (type === "input_image" && typeof image_url === "string") {
    const { prompt_cache_breakpoint, file_id, ...fields } = rest;
    if (prompt_cache_breakpoint) issues.dropped(["prompt_cache_breakpoint"], path);
    return [readImage(image_url, FORMAT, file_id ? { ...fields, file_id } : fields)];
  }
  // What a client can give begins with `input_`; an item of its own begins otherwise, and must not be taken for one.
  if (type === "input_text" || !String(type).startsWith("input_")) {
    issues.add(
      "malformed",
      "part",
      path,
      "A part is of no type and shape that a message can have; it is left out.",
    );
    return [];
  }
  issues.opaque(type, path);
  // An id names what lies with this provider.
  return [nativeBlock(FORMAT, part, part["file_id"] ? provider : undefined)];
}

/** Reasoning: the text that people may read, and the item as it was for the model that made it. */
export function readReasoning(item: Fields): ThinkingBlock {
  return { type: "thinking", thinking: reasoningText(item), thinkingSignature: JSON.stringify(item) };
}

/** What people may read of a reasoning item: its summary, else what it says in full; empty where it is encrypted. */
export function reasoningText(item: Fields): string {
  const texts = (field: string): string[] => {
    const list = item[field];
    return (Array.isArray(list) ? list : []).flatMap((part) =>
      isRecord(part) && typeof part["text"] === "string" ? [part["text"]] : [],
    );
  };
  const summary = texts("summary");
  return (summary.length > 0 ? summary : texts("content")).join("\n\n");
}

/** Fields that say something beyond the common ones and the API's bookkeeping. */
export function extraFields(fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([field, value]) => value !== null && !BOOKKEEPING.has(field)),
  );
}

/** Names of fields that will be missing; the API's own bookkeeping is none of them. */
export function unreadFields(fields: Fields): string[] {
  const unread = Object.keys(extraFields(fields));
  return fields["prompt_cache_breakpoint"] ? [...unread, "prompt_cache_breakpoint"] : unread;
}

/** A picture at an address, which can be a `data:` address with the picture in it. */
export function readImage(url: string, format: FormatName, fields: Record<string, unknown>): ContentBlock {
  const inline = parseDataUrl(url);
  const { detail, ...rest } = fields;
  const extra = detail === undefined || detail === null || detail === "auto" ? rest : { detail, ...rest };
  return inline
    ? withNative({ type: "image", ...inline }, format, extra)
    : stored(withNative({ type: "imageUrl", url }, format, extra));
}

/** Arguments of a call, which the model wrote as text that should be the JSON of an object. */
export function readArguments(text: unknown, path: string, issues: FormatIssues): Record<string, unknown> {
  const lost = (place: string) =>
    issues.add(
      "malformed",
      "value",
      `${path}.arguments.${place}`,
      "A value that no session can hold is left out.",
    );
  const parsed = text === "" || text === undefined ? {} : plainJson(parsedJson(text), lost);
  if (isRecord(parsed)) return parsed;
  issues.add(
    "changed",
    "arguments",
    path,
    "Arguments of a call are no JSON object; they become one with `value`.",
  );
  return { value: parsed ?? text };
}

/** The elements of a list that are objects with a `type`, each with its place; the others are told. */
export function partsOf(
  list: readonly unknown[],
  path: string,
  issues: FormatIssues,
): [Record<string, unknown>, string][] {
  return list.flatMap((part, at): [Record<string, unknown>, string][] => {
    const place = `${path}[${at}]`;
    if (isRecord(part) && typeof part["type"] === "string") return [[part, place]];
    issues.add("malformed", "part", place, "A part has no type; it is left out.");
    return [];
  });
}

/** Function tools as the Responses API writes them. Other tools belong to a request, not to a conversation. */
export function readOpenaiTools(tools: readonly unknown[], issues: FormatIssues): ToolDefinition[] {
  return tools.flatMap((tool, at): ToolDefinition[] => {
    const path = `tools[${at}]`;
    const { type, name, description, parameters, strict, ...rest } = isRecord(tool) ? tool : {};
    if (type !== "function" || typeof name !== "string") {
      issues.add("dropped", "tool", path, "A tool that is no function has no place in a session.");
      return [];
    }
    issues.dropped([...(strict === true ? ["strict"] : []), ...Object.keys(rest)], path);
    const described = typeof description === "string" ? { description } : {};
    return [{ name, ...described, ...(isRecord(parameters) ? { parameters } : {}) }];
  });
}
