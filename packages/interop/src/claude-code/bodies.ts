// Separate from importer.ts: one line becomes entries here; the importer joins lines to a tree.
import {
  type ContentBlock,
  contentBlocks,
  type Entry,
  isMessage,
  isRecord,
  messageText,
  type UserContent,
} from "@espalier/session-tree";
import { answerFacts, readAnswerBlock, readBlock } from "../formats/anthropic.ts";
import { FormatIssues, partsOf, readContent, textsOf } from "../formats/conversation.ts";
import { type EntryBody, NO_COST, shortName } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import type { ClaudeCodeFile } from "./file.ts";
import { type Line, LineKind } from "./line-facts.ts";
import type { LineTable } from "./line-table.ts";

/** Maximum number of bytes that are kept of an unreadable line. */
const LONGEST_UNREADABLE = 1 << 20;

/** State of reading a conversation. */
interface LineReading {
  /** Number of the line, for issues in its content. */
  place: string;
  /** Time of the line, in epoch milliseconds. */
  timestamp: number;
  content: FormatIssues;
  /** Returns the name of a call's tool; undefined for an unknown call. */
  toolName(callId: string): string | undefined;
  /** Model of the last answer. Answers that the agent itself wrote get it, because they have to name a model. */
  model: string;
}

/** Converts rows to entries, in order: later rows need the tool names and the model of earlier ones. */
export class LineBodies {
  readonly #file: ClaudeCodeFile;
  readonly #table: LineTable;
  readonly #issues: ImportIssues;
  readonly #reading: LineReading;
  readonly #linesOf: (row: number) => Line[];
  /** 1 for each answer whose tokens were counted. */
  readonly #counted: ScratchColumn<Int32Array>;
  /** Priority of the current name: a name with lower priority does not replace it. */
  #rank = 0;

  /** @param linesOf returns the parsed lines of an answer */
  constructor(
    file: ClaudeCodeFile,
    area: ScratchArea,
    issues: ImportIssues,
    linesOf: (row: number) => Line[],
  ) {
    this.#file = file;
    this.#table = file.lines.table;
    this.#issues = issues;
    this.#linesOf = linesOf;
    this.#counted = area.column(Int32Array);
    this.#reading = {
      place: "",
      timestamp: 0,
      content: new FormatIssues(),
      toolName: (callId) => file.calls.recentTool(callId) ?? this.#olderTool(callId),
      model: "unknown",
    };
  }

  /** Returns the entries of a row. An answer is read from all its lines; any other row from one line. */
  bodies(row: number, lines: readonly Line[], timestamp: number): EntryBody[] {
    const reading = this.#reading;
    const [line] = lines;
    if (line === undefined) return [this.#unreadable(row)];
    reading.place = String(this.#table.lineNumber.get(row));
    reading.timestamp = timestamp;
    const kind = this.#table.kind(row);
    if (kind === LineKind.user) return userBodies(line, reading);
    if (kind === LineKind.attachment) return [attachmentBody(line, reading)];
    if (kind === LineKind.assistant) {
      const answer = this.#table.message.get(row);
      const isCounted = answer >= 0 && this.#counted.get(answer) === 1;
      if (answer >= 0) this.#counted.set(answer, 1);
      return [answerBody(lines, isCounted, reading)];
    }
    if (kind === LineKind.unknown) this.#tellUnknownType(row);
    return [stateBody(line, textOf(line["subtype"]) ?? String(line["type"]))];
  }

  /** Returns the entry of a line without a position in the tree: a name of the session, or state of the agent. */
  aside(row: number, line: Line | undefined): EntryBody {
    if (line === undefined) return this.#unreadable(row);
    const type = textOf(line["type"]) ?? "";
    const rank = NAMES.findIndex(([named]) => named === type);
    if (rank < 0 && !KNOWN_STATE.has(type)) this.#tellUnknownType(row);
    const name = rank < 0 ? undefined : textOf(line[NAMES[rank]![1]]);
    const { leafUuid } = line;
    const isOfOther = typeof leafUuid === "string" && this.#table.rowOf(leafUuid) < 0;
    if (!name || rank < this.#rank || isOfOther) return stateBody(line, type);
    this.#rank = rank;
    return { type: "session_info", name };
  }

  /**
   * Makes a compaction from its summary and the metadata of its boundary. Claude Code's files name no thinking level:
   * the compaction gets `off`.
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
    const { calls } = this.#file;
    if (isMessage(entry, "assistant")) {
      this.#reading.model = entry.message.model;
      return calls.takeAnswer(entry.message, row);
    }
    if (line && isMessage(entry, "toolResult")) calls.takeResult(line, entry.message.toolCallId);
    return 0;
  }

  /** Reports the issues of the messages that were read last. */
  tellContentIssues(): void {
    for (const { path, message } of this.#reading.content.taken())
      this.#issues.add("content", Number.parseInt(path, 10), message);
  }

  #tellUnknownType(row: number): void {
    const message = "Lines of an unknown type are kept as data.";
    this.#issues.add("unknown-type", this.#table.lineNumber.get(row), message);
  }

  /** Returns the name of a call's tool, read from the answer again; undefined for an unknown call. */
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
    const table = this.#table;
    const isShort = table.lineLength.get(row) <= LONGEST_UNREADABLE;
    const message = isShort
      ? "A message is damaged and cannot be read; its place in the tree is kept."
      : "A message is damaged, or too long to read; its place in the tree is kept, and the first 1 MiB of its text.";
    this.#issues.add("unreadable-content", table.lineNumber.get(row), message);
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
 * @param isCounted true if another entry has the tokens of the answer: this one gets no usage
 */
function answerBody(lines: readonly Line[], isCounted: boolean, reading: LineReading): EntryBody {
  const { place, timestamp } = reading;
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
      ...(usage && !isCounted ? { usage: { ...usage, cost: NO_COST } } : {}),
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
 * Sorts the messages of the lines by the number that the provider gave each block, if all blocks have one. If the first
 * message is then not thinking, all thinking is moved to the front.
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
const readSaid = (content: unknown, { place, content: issues }: LineReading): UserContent =>
  typeof content === "string" ? content : (readContent(content, place, issues, readBlock) as UserContent);

/** Returns the entries of a user line: each tool result is a separate message, followed by the other content. */
function userBodies(line: Line, reading: LineReading): EntryBody[] {
  const { place, timestamp, content: issues } = reading;
  const content = messageOf(line)["content"];
  if (!Array.isArray(content)) return [saidBody(line, readSaid(content ?? [], reading), timestamp)];
  const bodies: EntryBody[] = [];
  const said: ContentBlock[] = [];
  const details = resultDetails(line["toolUseResult"], content.filter(isResult).length, place, issues);
  for (const [block, at] of partsOf(content, place, issues)) {
    if (isResult(block)) bodies.push(resultBody(block, { ...reading, place: at }, details[bodies.length]));
    else for (const read of readBlock(block, at, issues)) said.push(read);
  }
  if (said.length > 0 || bodies.length === 0) bodies.push(saidBody(line, said as UserContent, timestamp));
  return bodies;
}

/**
 * Returns the details of each result, from the structured copy in the line. A list with one element for each result is
 * divided; any other copy for several results is kept with the last, with an issue.
 */
function resultDetails(copy: unknown, results: number, place: string, issues: FormatIssues): unknown[] {
  if (copy === undefined || results === 0) return [];
  if (results === 1) return [copy];
  if (Array.isArray(copy) && copy.length === results) return copy;
  const message = "One `toolUseResult` is for several results; it is kept with the last of them.";
  issues.add("changed", "toolUseResult", place, message);
  return [...Array.from({ length: results - 1 }), copy];
}

/** Returns whether a line has the result of a tool call. */
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

function resultBody(block: Line, reading: LineReading, details: unknown): EntryBody {
  const { tool_use_id, content, is_error } = block;
  const toolCallId = textOf(tool_use_id) ?? "";
  const read = readSaid(content ?? [], reading);
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId,
      toolName: reading.toolName(toolCallId) ?? "",
      content: typeof read === "string" ? [{ type: "text", text: read }] : read,
      isError: is_error === true,
      ...(details === undefined ? {} : { details }),
      timestamp: reading.timestamp,
    },
  };
}

/** Fields that describe the position and the writer of a line, not its content. */
const ENVELOPE: ReadonlySet<string> = new Set(
  `type uuid parentUuid logicalParentUuid timestamp sessionId isSidechain isMeta cwd version gitBranch userType
  entrypoint slug`.split(/\s+/),
);

/** Returns the type of data of the agent. */
const ownType = (name: string): string => `claude-code.${shortName(name) || "line"}`;

/** Converts a line to state of the agent, under its own name, with all its fields except those of the {@link ENVELOPE}. */
function stateBody(line: Line, name: string): EntryBody {
  const data = Object.fromEntries(Object.entries(line).filter(([field]) => !ENVELOPE.has(field)));
  return { type: "custom", customType: ownType(name), data };
}

/**
 * Converts content that was added to a request outside the conversation: to a hidden message if the file has the
 * rendered text, or if the user typed it while the agent was busy; else to state.
 */
function attachmentBody(line: Line, reading: LineReading): EntryBody {
  const attachment = isRecord(line["attachment"]) ? line["attachment"] : {};
  const customType = ownType(textOf(attachment["type"]) ?? "attachment");
  const content = renderedContent(line["rendered"], reading) ?? queuedPrompt(attachment, reading);
  if (content === undefined) return { type: "custom", customType, data: attachment };
  const renderedRole = typeof line["renderedRole"] === "string" ? { renderedRole: line["renderedRole"] } : {};
  return {
    type: "custom_message",
    customType,
    content,
    display: false,
    details: { attachment, ...renderedRole },
  };
}

function renderedContent(rendered: unknown, reading: LineReading): UserContent | undefined {
  if (!Array.isArray(rendered) || rendered.length === 0) return undefined;
  const contents = rendered.filter(isRecord).map(({ content }) => readSaid(content ?? [], reading));
  const [only] = contents;
  if (contents.length === 1 && only !== undefined) return only;
  return contents.flatMap((content) => contentBlocks({ content })) as UserContent;
}

/** Returns text that the user typed while the agent was busy; undefined for any other attachment. */
function queuedPrompt({ type, prompt }: Line, reading: LineReading): UserContent | undefined {
  const isPrompt = type === "queued_command" && (typeof prompt === "string" || Array.isArray(prompt));
  return isPrompt ? readSaid(prompt, reading) : undefined;
}

/** Known types of lines that are stored as state. */
const KNOWN_STATE: ReadonlySet<string> = new Set(
  `agent-name bridge-session content-replacement cost-state file-history-snapshot mode permission-mode
  pr-link`.split(/\s+/),
);

/** Types of lines that name the session, lowest priority first, and the field with the name. */
const NAMES: readonly [type: string, field: string][] = [
  ["summary", "summary"],
  ["ai-title", "aiTitle"],
  ["custom-title", "customTitle"],
];

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
