import { type ContentBlock, contentBlocks, isRecord, type UserContent } from "@espalier/session-tree";
import { blocksOf, readBlock } from "../formats/anthropic-blocks.ts";
import type { FormatIssues } from "../formats/conversation.ts";
import type { EntryBody } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { Hearing, Line } from "./line-facts.ts";
import type { LineTable } from "./line-table.ts";

/** Text, or blocks as the session format has them. */
function readContent(content: unknown, place: string, issues: FormatIssues): UserContent {
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

/** Fields of a line that say where it belongs and who wrote it, not what it says. */
const ENVELOPE: ReadonlySet<string> = new Set([
  "type",
  "uuid",
  "parentUuid",
  "logicalParentUuid",
  "timestamp",
  "sessionId",
  "isSidechain",
  "isMeta",
  "cwd",
  "version",
  "gitBranch",
  "userType",
  "entrypoint",
  "slug",
]);

/** A line as state of the agent: under its own name, with all that it says. */
export function stateBody(line: Line, name: string): EntryBody {
  const data = Object.fromEntries(Object.entries(line).filter(([field]) => !ENVELOPE.has(field)));
  return { type: "custom", customType: `claude-code.${shortName(name)}`, data };
}

/**
 * What was put into a request beside the conversation. What the model saw of it is a hidden message; where the file does
 * not say that, it is state.
 */
export function attachmentBody(line: Line, place: string, issues: FormatIssues): EntryBody {
  const attachment = isRecord(line["attachment"]) ? line["attachment"] : {};
  const { type } = attachment;
  const name = shortName(typeof type === "string" ? type : "attachment");
  const content = renderedContent(line["rendered"], place, issues) ?? queuedPrompt(attachment, place, issues);
  if (content === undefined) return { type: "custom", customType: `claude-code.${name}`, data: attachment };
  const renderedRole = typeof line["renderedRole"] === "string" ? { renderedRole: line["renderedRole"] } : {};
  return {
    type: "custom_message",
    customType: `claude-code.${name}`,
    content,
    display: false,
    details: { attachment, ...renderedRole },
  };
}

function renderedContent(rendered: unknown, place: string, issues: FormatIssues): UserContent | undefined {
  if (!Array.isArray(rendered) || rendered.length === 0) return undefined;
  const contents = rendered.filter(isRecord).map(({ content }) => readContent(content ?? [], place, issues));
  const [only] = contents;
  if (contents.length === 1 && only !== undefined) return only;
  return contents.flatMap((content) => contentBlocks({ content })) as UserContent;
}

/** What the user typed while the agent was busy. */
function queuedPrompt(attachment: Line, place: string, issues: FormatIssues): UserContent | undefined {
  const { type, prompt } = attachment;
  if (type !== "queued_command" || (typeof prompt !== "string" && !Array.isArray(prompt))) return undefined;
  return readContent(prompt, place, issues);
}

/** Names come from outside: short, and printable. */
function shortName(name: string): string {
  return name.replace(/[^\w.-]+/g, "-").slice(0, 64) || "line";
}

const IN_MESSAGES = "what it said is in the messages";

/** Lines without a place in the tree that say nothing about the conversation, and why. */
const BOOKKEEPING: ReadonlyMap<string, string> = new Map([
  ["api-request", `it says how a request was put together; ${IN_MESSAGES}`],
  ["api-request-shape", `it says how a request was put together; ${IN_MESSAGES}`],
  ["api-request-blob", `it is a part of a request; ${IN_MESSAGES}`],
  ["atis-latch", "it is a switch of the agent's own transport"],
  ["last-prompt", "it is a hint at the newest prompt, which stands in the conversation"],
  ["queue-operation", "it is about the queue of prompts; those that were sent stand in the conversation"],
  ["tools-used", "it lists names of tools, which stand in the calls"],
]);

/** Why a line is left out, as a sentence; undefined for one that is kept. */
export function reasonToLeaveOut(type: string): string | undefined {
  const reason = BOOKKEEPING.get(type);
  return reason && `\`${type}\` is left out: ${reason}.`;
}

/** Types of lines that are kept as state, and are no surprise. */
const KNOWN_STATE: ReadonlySet<string> = new Set([
  "agent-name",
  "bridge-session",
  "content-replacement",
  "cost-state",
  "file-history-snapshot",
  "mode",
  "permission-mode",
  "pr-link",
]);

/** Lines that name the session, the weakest first, and the field with the name. */
const NAMES: readonly [type: string, field: string][] = [
  ["summary", "summary"],
  ["ai-title", "aiTitle"],
  ["custom-title", "customTitle"],
];

/** Reads the lines without a place in the tree that are kept: names of the session, and state of the agent. */
export class AsideLines {
  readonly #table: LineTable;
  readonly #issues: ImportIssues;
  /** The rank of the name that holds: a weaker one does not replace it. */
  #rank = 0;

  constructor(table: LineTable, issues: ImportIssues) {
    this.#table = table;
    this.#issues = issues;
  }

  body(line: Line, lineNumber: number): EntryBody {
    const type = typeof line["type"] === "string" ? line["type"] : "";
    const rank = NAMES.findIndex(([name]) => name === type);
    if (rank < 0) {
      if (!KNOWN_STATE.has(type))
        this.#issues.add("unknown-type", lineNumber, "Lines of a type that is not known are kept as state.");
      return stateBody(line, type || "line");
    }
    const name = nameIn(line, NAMES[rank]![1]);
    const { leafUuid } = line;
    const isOfOther = typeof leafUuid === "string" && this.#table.rowOf(leafUuid) < 0;
    if (name === undefined || rank < this.#rank || isOfOther) return stateBody(line, type);
    this.#rank = rank;
    return { type: "session_info", name };
  }
}

function nameIn(line: Line, field: string): string | undefined {
  const names = [field, "title", "name"].map((key) => line[key]);
  return names.find((name): name is string => typeof name === "string" && name !== "");
}
