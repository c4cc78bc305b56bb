import { type ContentBlock, isRecord, type ThinkingBlock } from "@espalier/session-tree";
import type { FormatIssues } from "./format-issue.ts";
import { nativeBlock, withNative } from "./native.ts";
import { partsOf, readImage } from "./openai-parts.ts";

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
