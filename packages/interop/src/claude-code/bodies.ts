import {
  type ContentBlock,
  contentBlocks,
  type Entry,
  isRecord,
  messageText,
  type UserContent,
} from "@espalier/session-tree";
import { answerFacts, readAnswerBlock, readBlock } from "../formats/anthropic.ts";
import { FormatIssues, partsOf, readContent, textsOf } from "../formats/conversation.ts";
import { type EntryBody, NO_COST } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import type { ClaudeCodeFile } from "./file.ts";
import { type Line, LineKind } from "./line-facts.ts";
import type { LineTable } from "./line-table.ts";

/** Bytes that are kept of a line that cannot be read. */
const LONGEST_UNREADABLE = 1 << 20;

/** State of reading a conversation: earlier calls and models, and the issues inside messages. */
interface LineReading {
  content: FormatIssues;
  /** Name of the tool of a call. */
  toolName(callId: string): string | undefined;
  /** Model of the last answer: an answer that the agent itself wrote has to name one too. */
  model: string;
}

/** Reads the entries of rows in order: later rows need tool names and the model of earlier ones. */
export class LineBodies {
  readonly #file: ClaudeCodeFile;
  readonly #issues: ImportIssues;
  readonly #reading: LineReading;
  readonly #linesOf: (row: number) => Line[];
  /** 1 for answers whose tokens were counted. */
  readonly #counted: ScratchColumn<Int32Array>;

  /** @param linesOf the lines of an answer, parsed */
  constructor(
    file: ClaudeCodeFile,
    area: ScratchArea,
    issues: ImportIssues,
    linesOf: (row: number) => Line[],
  ) {
    this.#file = file;
    this.#issues = issues;
    this.#linesOf = linesOf;
    this.#counted = area.integers();
    this.#reading = {
      content: new FormatIssues(),
      toolName: (callId) => file.calls.recentTool(callId) ?? this.#olderTool(callId),
      model: "unknown",
    };
  }

  /** Entries of a row. An answer is read from all its lines; every other row from one. */
  bodies(row: number, lines: readonly Line[], timestamp: number): EntryBody[] {
    const { table } = this.#file.lines;
    const [line] = lines;
    const place = String(table.lineNumber(row));
    if (line === undefined) return [this.#unreadable(row)];
    const kind = table.kind(row);
    if (kind === LineKind.user) return userBodies(line, place, timestamp, this.#reading);
    if (kind === LineKind.assistant) return [this.#answer(row, lines, place, timestamp)];
    if (kind === LineKind.attachment) return [attachmentBody(line, place, this.#reading.content)];
    const type = String(line["type"]);
    if (kind === LineKind.unknown)
      this.#issues.add("unknown-type", table.lineNumber(row), "Lines of an unknown type are kept as data.");
    return [stateBody(line, typeof line["subtype"] === "string" ? line["subtype"] : type)];
  }

  /**
   * Makes a compaction from its summary and the metadata of its boundary. Claude Code's files name no thinking level: it
   * is the default.
   *
   * @param firstKeptEntryId the entry from which on everything stays
   */
  compaction(summary: Line, metadata: Line, firstKeptEntryId: string): EntryBody {
    const { trigger, preTokens } = metadata;
    const { content } = messageOf(summary);
    return {
      type: "compaction",
      summary: messageText({ role: "user", content: content as string, timestamp: 0 }),
      firstKeptEntryId,
      tokensBefore: typeof preTokens === "number" ? preTokens : 0,
      details: {
        ...(typeof trigger === "string" ? { reason: trigger } : {}),
        settings: { provider: "anthropic", modelId: this.#reading.model, thinkingLevel: "off" },
        "claude-code": metadata,
      },
    };
  }

  /** Remembers the model and the calls of an entry for later ones; returns the number of calls. */
  notice(entry: Entry, line: Line | undefined, row: number): number {
    const { message } = entry as Entry & { message?: Record<string, unknown> };
    const { calls } = this.#file;
    if (message?.["role"] === "assistant") {
      this.#reading.model = String(message["model"]);
      return calls.takeAnswer(entry, row);
    }
    if (line && message?.["role"] === "toolResult") calls.takeResult(line, String(message["toolCallId"]));
    return 0;
  }

  /** Reports the issues inside the messages that were read last. */
  tellContentIssues(): void {
    const { content } = this.#reading;
    if (content.isEmpty) return;
    for (const { path, message } of content.list())
      this.#issues.add("content", Number.parseInt(path, 10), message);
    this.#reading.content = new FormatIssues();
  }

  #answer(row: number, lines: readonly Line[], place: string, timestamp: number): EntryBody {
    const number = this.#file.lines.table.message(row);
    const counts = number < 0 || this.#counted.get(number) === 0;
    if (number >= 0) this.#counted.set(number, 1);
    return answerBody(lines, place, timestamp, this.#reading, counts);
  }

  /** Name of a call's tool, read again from the answer. */
  #olderTool(callId: string): string | undefined {
    const row = this.#file.calls.rowOf(callId);
    if (row < 0) return undefined;
    const blocks = this.#linesOf(row).flatMap(({ message }) =>
      isRecord(message) && Array.isArray(message["content"]) ? message["content"].filter(isRecord) : [],
    );
    const called = blocks.find(({ type, id }) => type === "tool_use" && id === callId);
    return typeof called?.["name"] === "string" ? called["name"] : undefined;
  }

  /** An entry for a line of which only the place is known: it keeps its children in the tree. */
  #unreadable(row: number): EntryBody {
    const { table } = this.#file.lines;
    const isShort = table.lineLength(row) <= LONGEST_UNREADABLE;
    const message = isShort
      ? "A message is damaged and cannot be read; its place in the tree is kept."
      : "A message is damaged, or too long to read; its place in the tree is kept, and the first 1 MiB of its text.";
    this.#issues.add("unreadable-content", table.lineNumber(row), message);
    const text = new TextDecoder().decode(this.#file.bytesAt(row, LONGEST_UNREADABLE));
    return { type: "custom", customType: "claude-code.unreadable", data: { text } };
  }
}

/** True for bodies that a model reads. */
export function speaks(bodies: readonly EntryBody[]): boolean {
  return bodies.some(({ type }) => type === "message" || type === "custom_message");
}

/** Model name of answers that the agent itself wrote. */
const SYNTHETIC = "<synthetic>";

/**
 * An answer out of all its lines, in file order. Each line repeats what the answer as a whole says: the last one knows
 * best.
 *
 * @param counts whether its tokens are counted here, or were already
 */
function answerBody(
  lines: readonly Line[],
  place: string,
  timestamp: number,
  reading: LineReading,
  counts: boolean,
): EntryBody {
  const messages = lines.map(messageOf);
  const content = inOrder(lines, messages).flatMap((message) =>
    readContent(message["content"], place, reading.content, readAnswerBlock),
  );
  const { role: _role, content: _content, ...facts } = messages.at(-1) ?? {};
  const { said, unread } = answerFacts(facts);
  reading.content.dropped(unread, place);
  const { model = reading.model, usage, ...ended } = said;
  return {
    type: "message",
    message: {
      role: "assistant",
      content,
      api: "anthropic-messages",
      provider: "anthropic",
      model: model === SYNTHETIC ? reading.model : model,
      ...(typeof facts["id"] === "string" ? { responseId: facts["id"] } : {}),
      ...(usage && counts ? { usage: { ...usage, cost: NO_COST } } : {}),
      stopReason: content.some((block) => block.type === "toolCall") ? "toolUse" : "stop",
      ...ended,
      ...(lines.some(isFailure) ? { stopReason: "error", errorMessage: textsOf(content).join("\n") } : {}),
      timestamp,
    },
    ...(lines.length > 1 ? { sourceLines: lines.length } : {}),
  };
}

const messageOf = (line: Line): Line => (isRecord(line["message"]) ? line["message"] : {});
const isFailure = (line: Line): boolean => line["isApiErrorMessage"] === true;

/** By the number that the provider gave each block, where all have one and thinking comes first; else thinking first. */
function inOrder(lines: readonly Line[], messages: readonly Line[]): Line[] {
  const parts = messages.map((message, at) => ({ message, number: lines[at]!["apiBlockIndex"] }));
  if (parts.every(({ number }) => typeof number === "number"))
    parts.sort((a, b) => (a.number as number) - (b.number as number));
  const ordered = parts.map(({ message }) => message);
  if (ordered[0] && isThinking(ordered[0])) return ordered;
  return [...ordered.filter(isThinking), ...ordered.filter((message) => !isThinking(message))];
}

function isThinking({ content }: Line): boolean {
  const first: unknown = Array.isArray(content) ? content[0] : undefined;
  return isRecord(first) && (first["type"] === "thinking" || first["type"] === "redacted_thinking");
}

/** Text, or blocks as the session format has them. */
const readSaid = (content: unknown, place: string, issues: FormatIssues): UserContent =>
  typeof content === "string" ? content : (readContent(content, place, issues, readBlock) as UserContent);

/** Entries of a user line: results of tools, each a message of its own, then the other content. */
function userBodies(line: Line, place: string, timestamp: number, reading: LineReading): EntryBody[] {
  const { content: issues } = reading;
  const content = messageOf(line)["content"];
  if (!Array.isArray(content)) return [saidBody(line, readSaid(content ?? [], place, issues), timestamp)];
  const bodies: EntryBody[] = [];
  const said: ContentBlock[] = [];
  const details = resultDetails(line["toolUseResult"], content.filter(isResult).length, place, issues);
  for (const [block, at] of partsOf(content, place, issues)) {
    if (isResult(block)) bodies.push(resultBody(block, at, timestamp, reading, details[bodies.length]));
    else for (const read of readBlock(block, at, issues)) said.push(read);
  }
  if (said.length > 0 || bodies.length === 0) bodies.push(saidBody(line, said as UserContent, timestamp));
  return bodies;
}

/** Details of each result, from the structured copy in the result's line. */
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
  const content = messageOf(line)["content"];
  return Array.isArray(content) && content.some(isResult);
}

const isResult = (block: unknown): boolean => isRecord(block) && block["type"] === "tool_result";

/** Typed text is a message; text of the agent is one of an extension; text that no model saw is state. */
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
  reading: LineReading,
  details: unknown,
): EntryBody {
  const { tool_use_id, content, is_error } = block;
  const toolCallId = typeof tool_use_id === "string" ? tool_use_id : "";
  const read = readSaid(content ?? [], place, reading.content);
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId,
      toolName: reading.toolName(toolCallId) ?? "",
      content: typeof read === "string" ? [{ type: "text", text: read }] : read,
      isError: is_error === true,
      ...(details === undefined ? {} : { details }),
      timestamp,
    },
  };
}

/** Fields of a line about its place and writer, not its content. */
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

/** A line as state of the agent: under its own name, with all its fields. */
function stateBody(line: Line, name: string): EntryBody {
  const data = Object.fromEntries(Object.entries(line).filter(([field]) => !ENVELOPE.has(field)));
  return { type: "custom", customType: `claude-code.${shortName(name)}`, data };
}

/** Content that was put into a request beside the conversation: a hidden message where the file has the rendered text, else state. */
function attachmentBody(line: Line, place: string, issues: FormatIssues): EntryBody {
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
  const contents = rendered.filter(isRecord).map(({ content }) => readSaid(content ?? [], place, issues));
  const [only] = contents;
  if (contents.length === 1 && only !== undefined) return only;
  return contents.flatMap((content) => contentBlocks({ content })) as UserContent;
}

/** Text that the user typed while the agent was busy. */
function queuedPrompt(attachment: Line, place: string, issues: FormatIssues): UserContent | undefined {
  const { type, prompt } = attachment;
  if (type !== "queued_command" || (typeof prompt !== "string" && !Array.isArray(prompt))) return undefined;
  return readSaid(prompt, place, issues);
}

/** Names come from outside: short, and printable. */
function shortName(name: string): string {
  return name.replace(/[^\w.-]+/g, "-").slice(0, 64) || "line";
}

/** Known types of lines that are kept as state. */
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

/** Types of lines that name the session, the weakest first, and the field with the name. */
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
        this.#issues.add("unknown-type", lineNumber, "Lines of an unknown type are kept as data.");
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
