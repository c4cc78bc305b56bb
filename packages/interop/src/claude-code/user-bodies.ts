import { type ContentBlock, isRecord, type UserContent } from "@espalier/session-tree";
import { blocksOf, readBlock } from "../formats/anthropic-blocks.ts";
import type { FormatIssues } from "../formats/format-issue.ts";
import type { EntryBody } from "../import-entry.ts";
import type { Hearing, Line } from "./hearing.ts";

/** Text, or blocks as the session format has them. */
export function readContent(content: unknown, place: string, issues: FormatIssues): UserContent {
  if (typeof content === "string") return content;
  return blocksOf(content, place, issues).flatMap(([block, at]) =>
    readBlock(block, at, issues),
  ) as UserContent;
}

/** What a user line says: results of tools, each a message of its own, then what stands beside them. */
export function userBodies(line: Line, place: string, timestamp: number, hearing: Hearing): EntryBody[] {
  const { content: issues } = hearing;
  const content = isRecord(line["message"]) ? line["message"]["content"] : undefined;
  if (!Array.isArray(content)) return [saidBody(line, readContent(content ?? [], place, issues), timestamp)];
  const bodies: EntryBody[] = [];
  const said: ContentBlock[] = [];
  const details = resultDetails(line["toolUseResult"], content.filter(isResult).length, place, issues);
  for (const [block, at] of blocksOf(content, place, issues)) {
    if (isResult(block)) bodies.push(resultBody(block, at, timestamp, hearing, details[bodies.length]));
    else for (const read of readBlock(block, at, issues)) said.push(read);
  }
  if (said.length > 0 || bodies.length === 0) bodies.push(saidBody(line, said as UserContent, timestamp));
  return bodies;
}

/** The structured copy that a line has beside its results: for each result what belongs to it. */
function resultDetails(copy: unknown, results: number, place: string, issues: FormatIssues): unknown[] {
  if (copy === undefined || results === 0) return [];
  if (results === 1) return [copy];
  if (Array.isArray(copy) && copy.length === results) return copy;
  const message = "One `toolUseResult` is for several results; it is kept with the last of them.";
  issues.add("changed", "toolUseResult", place, message);
  return [...Array.from({ length: results - 1 }), copy];
}

/** True for a line that answers a call. */
export function holdsResult(line: Line): boolean {
  const content = isRecord(line["message"]) ? line["message"]["content"] : undefined;
  return Array.isArray(content) && content.some(isResult);
}

const isResult = (block: unknown): boolean => isRecord(block) && block["type"] === "tool_result";

/** What was typed is a message; what the agent put in is one of an extension; what no model saw is state. */
function saidBody(line: Line, content: UserContent, timestamp: number): EntryBody {
  if (line["isMeta"] === true)
    return { type: "custom_message", customType: "claude-code.meta", content, display: false };
  if (line["isVisibleInTranscriptOnly"] === true)
    return { type: "custom", customType: "claude-code.transcript-only", data: { content } };
  return { type: "message", message: { role: "user", content, timestamp } };
}

function resultBody(
  block: Line,
  place: string,
  timestamp: number,
  hearing: Hearing,
  details: unknown,
): EntryBody {
  const { tool_use_id, content, is_error } = block;
  const toolCallId = typeof tool_use_id === "string" ? tool_use_id : "";
  const read = readContent(content ?? [], place, hearing.content);
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId,
      toolName: hearing.toolName(toolCallId) ?? "",
      content: typeof read === "string" ? [{ type: "text", text: read }] : read,
      isError: is_error === true,
      ...(details === undefined ? {} : { details }),
      timestamp,
    },
  };
}
