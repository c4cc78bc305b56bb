import {
  type ContentBlock,
  contentBlocks,
  isRecord,
  type ToolCallBlock,
  type UserContent,
} from "@espalier/session-tree";
import type { FormatIssues } from "../formats/format-issue.ts";
import { nativeBlock, withNative } from "../formats/native.ts";
import { readContent } from "../formats/openai-items.ts";
import { readArguments } from "../formats/openai-parts.ts";
import type { EntryBody } from "../import-entry.ts";

type Fields = Record<string, unknown>;

const FORMAT = "openai-responses";

/** Where something is read, and for whom it was written. */
export interface Reading {
  /** The line, as issues name it. */
  place: string;
  provider: string;
  issues: FormatIssues;
}

/** The content of a message: text where it is nothing else. */
export function readSaid(content: unknown, { place, provider, issues }: Reading): UserContent {
  if (typeof content === "string") return content;
  const blocks = readContent(content ?? [], place, issues, provider);
  const [only] = blocks;
  if (blocks.length === 1 && only?.type === "text" && Object.keys(only).length === 2) return only.text;
  return blocks as UserContent;
}

/** A call of a tool that ran on this machine; undefined for every other item. */
export function readCall(item: Fields, { place, issues }: Reading): ToolCallBlock | undefined {
  const { type, call_id, id, name, arguments: given, input, action } = item;
  const callId = typeof call_id === "string" ? call_id : type === "local_shell_call" ? id : undefined;
  if (typeof callId !== "string") return undefined;
  const call = (toolName: string, input: Fields): ToolCallBlock => ({
    type: "toolCall",
    id: callId,
    name: toolName,
    arguments: input,
  });
  if (type === "function_call" && typeof name === "string")
    return call(name, readArguments(given, place, issues));
  if (type === "custom_tool_call" && typeof name === "string")
    return withNative(call(name, { input: typeof input === "string" ? input : "" }), FORMAT, { type });
  if (type === "local_shell_call") return call("local_shell", isRecord(action) ? action : {});
  if (type === "tool_search_call")
    return call("tool_search", isRecord(given) ? given : readArguments(given, place, issues));
  return undefined;
}

/** What a tool that the provider runs did: nobody else can say it, and nothing answers it. */
export function readHosted(item: Fields, { place, provider, issues }: Reading): ContentBlock {
  issues.opaque(item["type"], place);
  return nativeBlock(FORMAT, item, provider);
}

/** The result of a call. */
export function resultBody(item: Fields, toolName: string, timestamp: number, reading: Reading): EntryBody {
  const { call_id, output, tools } = item;
  const { content, success } = isRecord(output) ? output : { content: output ?? tools, success: undefined };
  const isPlain = typeof content === "string" || (Array.isArray(content) && content.every(isPart));
  const said = isPlain
    ? readSaid(content, reading)
    : JSON.stringify(isRecord(output) ? output : (content ?? ""));
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId: typeof call_id === "string" ? call_id : "",
      toolName,
      content: contentBlocks({ content: said }),
      isError: success === false,
      timestamp,
    },
  };
}

const isPart = (part: unknown): boolean =>
  isRecord(part) && typeof part["type"] === "string" && /^(input|output)_/.test(part["type"]);
