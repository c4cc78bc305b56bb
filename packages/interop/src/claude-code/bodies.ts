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

/** Maximum number of bytes that are kept of an unreadable line. */
const LONGEST_UNREADABLE = 1 << 20;

/** State while a conversation is read: earlier calls and models, and the issues of messages. */
interface LineReading {
  content: FormatIssues;
  /** Returns the name of the tool of a call. */
  toolName(callId: string): string | undefined;
  /** Model of the last answer. Answers that the agent itself wrote get it, because they have to name a model. */
  model: string;
}

/** Converts rows to entries, in order: later rows need the tool names and the model of earlier ones. */
export class LineBodies {
  readonly #file: ClaudeCodeFile;
  readonly #issues: ImportIssues;
  readonly #reading: LineReading;
  readonly #linesOf: (row: number) => Line[];
  /** 1 for each answer whose tokens were counted. */
  readonly #counted: ScratchColumn<Int32Array>;

  /** @param linesOf returns the parsed lines of an answer */
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

  /** Returns the entries of a row. An answer is read from all its lines; any other row from one line. */
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
   * Makes a compaction from its summary and the metadata of its boundary. Claude Code's files name no thinking level:
   * the compaction gets the default.
   *
   * @param firstKeptEntryId the first of the kept entries
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

  /** Stores the model and the calls of an entry for later entries; returns the number of calls. */
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

  /** Reports the issues of the messages that were read last. */
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

  /** Returns the name of a call's tool, which is read from the answer again. */
  #olderTool(callId: string): string | undefined {
    const row = this.#file.calls.rowOf(callId);
    if (row < 0) return undefined;
    const blocks = this.#linesOf(row).flatMap(({ message }) =>
      isRecord(message) && Array.isArray(message["content"]) ? message["content"].filter(isRecord) : [],
    );
    const called = blocks.find(({ type, id }) => type === "tool_use" && id === callId);
    return typeof called?.["name"] === "string" ? called["name"] : undefined;
  }

  /** Makes an entry for a line of which only the position is known: its children in the tree need it. */
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

/** Returns whether a model reads any of these bodies. */
export function speaks(bodies: readonly EntryBody[]): boolean {
  return bodies.some(({ type }) => type === "message" || type === "custom_message");
}

/** Model name of answers that the agent itself wrote. */
const SYNTHETIC = "<synthetic>";

/**
 * Makes an answer from all its lines, in file order. Each line repeats the fields of the whole answer; the values of
 * the last line are used.
 *
 * @param counts true if its tokens are counted here; false if they were counted before
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

/**
 * Sorts the lines by the number that the provider gave each block, if all blocks have one and thinking comes first;
 * else puts thinking first.
 */
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

/** Returns text, or blocks in the session format. */
const readSaid = (content: unknown, place: string, issues: FormatIssues): UserContent =>
  typeof content === "string" ? content : (readContent(content, place, issues, readBlock) as UserContent);

/** Returns the entries of a user line: each result of a tool is a separate message, followed by the other content. */
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

/** Returns the details of each result, from the structured copy in the result's line. */
function resultDetails(copy: unknown, results: number, place: string, issues: FormatIssues): unknown[] {
  if (copy === undefined || results === 0) return [];
  if (results === 1) return [copy];
  if (Array.isArray(copy) && copy.length === results) return copy;
  const message = "One `toolUseResult` is for several results; it is kept with the last of them.";
  issues.add("changed", "toolUseResult", place, message);
  return [...Array.from({ length: results - 1 }), copy];
}

/** Returns whether a line answers a call. */
export function holdsResult(line: Line): boolean {
  const content = messageOf(line)["content"];
  return Array.isArray(content) && content.some(isResult);
}

const isResult = (block: unknown): boolean => isRecord(block) && block["type"] === "tool_result";

/**
 * Returns the body of a text: a message for typed text, a custom message for text of the agent, and state for text that
 * no model read.
 */
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

/** Fields that describe the position and the writer of a line, not its content. */
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

/** Converts a line to state of the agent, under its own name and with all its fields. */
function stateBody(line: Line, name: string): EntryBody {
  const data = Object.fromEntries(Object.entries(line).filter(([field]) => !ENVELOPE.has(field)));
  return { type: "custom", customType: `claude-code.${shortName(name)}`, data };
}

/**
 * Converts content that was added to a request outside the conversation: to a hidden message if the file has the
 * rendered text, else to state.
 */
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

/** Returns text that the user typed while the agent was busy. */
function queuedPrompt(attachment: Line, place: string, issues: FormatIssues): UserContent | undefined {
  const { type, prompt } = attachment;
  if (type !== "queued_command" || (typeof prompt !== "string" && !Array.isArray(prompt))) return undefined;
  return readSaid(prompt, place, issues);
}

/** Returns a name from the file, shortened, with printable characters only. */
function shortName(name: string): string {
  return name.replace(/[^\w.-]+/g, "-").slice(0, 64) || "line";
}

/** Known types of lines that are stored as state. */
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

/** Types of lines that name the session, lowest priority first, and the field with the name. */
const NAMES: readonly [type: string, field: string][] = [
  ["summary", "summary"],
  ["ai-title", "aiTitle"],
  ["custom-title", "customTitle"],
];

/** Reads lines that have no position in the tree and are kept: names of the session, and state of the agent. */
export class AsideLines {
  readonly #table: LineTable;
  readonly #issues: ImportIssues;
  /** Priority of the current name: a name with lower priority does not replace it. */
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
