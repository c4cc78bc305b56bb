// Separate from importer.ts: one line becomes entries here; the importer joins lines to a tree.
import {
  type ContentBlock,
  contentBlocks,
  isRecord,
  messageText,
  type UserContent,
} from "@espalier/session-tree";
import { answerFacts, readAnswerBlock, readBlock } from "../formats/anthropic.ts";
import { type FormatIssues, partsOf, readContent, textsOf } from "../formats/conversation.ts";
import { type EntryBody, NO_COST, shortName } from "../import/entry.ts";
import { type Line, LineKind } from "./line-facts.ts";
import { linesOf, type Pass } from "./pass.ts";

/** Maximum number of bytes that are kept of an unreadable line. */
const LONGEST_UNREADABLE = 1 << 20;

/** Returns the entries of a row, from its readable lines: those of an answer, or one. */
export function bodiesOf(pass: Pass, row: number, [line, ...others]: readonly Line[]): EntryBody[] {
  const { lines } = pass;
  if (line === undefined) return [unreadableBody(pass, row)];
  const kind = lines.kind.get(row);
  const place = String(lines.number.get(row));
  if (kind === LineKind.user) return userBodies(line, place, pass);
  if (kind === LineKind.attachment) return [attachmentBody(line, place, pass)];
  if (kind === LineKind.assistant) return [answerBody(row, [line, ...others], place, pass)];
  if (kind === LineKind.unknown) tellUnknownType(pass, row);
  return [stateBody(line, textOf(line["subtype"]) ?? String(line["type"]))];
}

/** Returns the entry of a line without a position in the tree: a name of the session, or state of the agent. */
export function asideBody(pass: Pass, row: number, line: Line | undefined): EntryBody {
  if (line === undefined) return unreadableBody(pass, row);
  const type = textOf(line["type"]) ?? "";
  const rank = NAMES.findIndex(([named]) => named === type);
  if (rank < 0 && !KNOWN_STATE.has(type)) tellUnknownType(pass, row);
  const name = rank < 0 ? undefined : textOf(line[NAMES[rank]![1]]);
  const { leafUuid } = line;
  const isOfOther = typeof leafUuid === "string" && pass.lines.ids.rowOf(leafUuid) < 0;
  if (!name || rank < pass.rank || isOfOther) return stateBody(line, type);
  pass.rank = rank;
  return { type: "session_info", name };
}

/**
 * Makes a compaction from its summary and the metadata of its boundary. Claude Code's files name no thinking level:
 * the compaction gets `off`.
 *
 * @param firstKeptEntryId the first of the kept entries
 */
export function compactionBody(
  summary: Line,
  metadata: Line,
  firstKeptEntryId: string,
  modelId: string,
): EntryBody {
  const { trigger, preTokens } = metadata;
  const { content } = messageOf(summary);
  return {
    type: "compaction",
    summary: messageText({ role: "user", content: content as string, timestamp: 0 }),
    firstKeptEntryId,
    tokensBefore: typeof preTokens === "number" ? preTokens : 0,
    details: {
      ...(typeof trigger === "string" ? { reason: trigger } : {}),
      settings: { provider: "anthropic", modelId, thinkingLevel: "off" },
      "claude-code": metadata,
    },
  };
}

function tellUnknownType({ issues, lines }: Pass, row: number): void {
  issues.add("unknown-type", lines.number.get(row), "Lines of an unknown type are kept as data.");
}

/** Makes an entry for a line of which only the position is known: its children in the tree need it. */
function unreadableBody({ file, lines, issues }: Pass, row: number): EntryBody {
  const isShort = lines.size.get(row) <= LONGEST_UNREADABLE;
  const message = isShort
    ? "A message is damaged and cannot be read; its place in the tree is kept."
    : "A message is damaged, or too long to read; its place in the tree is kept, and the first 1 MiB of its text.";
  issues.add("unreadable-content", lines.number.get(row), message);
  const text = new TextDecoder().decode(file.bytesAt(row, LONGEST_UNREADABLE));
  return { type: "custom", customType: "claude-code.unreadable", data: { text } };
}

/** Returns whether a model reads any of these bodies. */
export function speaks(bodies: readonly EntryBody[]): boolean {
  return bodies.some(({ type }) => type === "message" || type === "custom_message");
}

/** Model name of answers that the agent itself wrote. */
const SYNTHETIC = "<synthetic>";

/**
 * Makes an answer from all its lines, in file order. Each line repeats the fields of the whole answer; the values of
 * the last line are used. The first entry of an answer gets its usage, which counts once.
 */
function answerBody(row: number, lines: readonly Line[], place: string, pass: Pass): EntryBody {
  const answer = pass.lines.message.get(row);
  const isCounted = answer >= 0 && pass.counted.get(answer) === 1;
  if (answer >= 0) pass.counted.set(answer, 1);
  const messages = lines.map(messageOf);
  const content = inOrder(lines, messages).flatMap((message) =>
    readContent(message["content"], place, pass.content, readAnswerBlock),
  );
  const { role: _role, content: _content, ...facts } = messages.at(-1) ?? {};
  const { said, unread } = answerFacts(facts);
  pass.content.dropped(unread, place);
  const { model = pass.model, usage, ...ended } = said;
  return {
    type: "message",
    message: {
      role: "assistant",
      content,
      api: "anthropic-messages",
      provider: "anthropic",
      model: model === SYNTHETIC ? pass.model : model,
      ...(typeof facts["id"] === "string" ? { responseId: facts["id"] } : {}),
      ...(usage && !isCounted ? { usage: { ...usage, cost: NO_COST } } : {}),
      stopReason: content.some((block) => block.type === "toolCall") ? "toolUse" : "stop",
      ...ended,
      ...(lines.some(isFailure) ? { stopReason: "error", errorMessage: textsOf(content).join("\n") } : {}),
      timestamp: pass.time.ms,
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
const readSaid = (content: unknown, place: string, { content: issues }: Pass): UserContent =>
  typeof content === "string" ? content : (readContent(content, place, issues, readBlock) as UserContent);

/** Returns the entries of a user line: each tool result is a separate message, followed by the other content. */
function userBodies(line: Line, place: string, pass: Pass): EntryBody[] {
  const issues = pass.content;
  const content = messageOf(line)["content"];
  if (!Array.isArray(content)) return [saidBody(line, readSaid(content, place, pass), pass)];
  const bodies: EntryBody[] = [];
  const said: ContentBlock[] = [];
  const details = resultDetails(line["toolUseResult"], content.filter(isResult).length, place, issues);
  for (const [block, at] of partsOf(content, place, issues)) {
    if (isResult(block)) bodies.push(resultBody(block, at, pass, details[bodies.length]));
    else for (const read of readBlock(block, at, issues)) said.push(read);
  }
  if (said.length > 0 || bodies.length === 0) bodies.push(saidBody(line, said as UserContent, pass));
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
function saidBody(line: Line, content: UserContent, { time }: Pass): EntryBody {
  if (line["isMeta"] === true)
    return { type: "custom_message", customType: "claude-code.meta", content, display: false };
  if (line["isVisibleInTranscriptOnly"] === true)
    return { type: "custom", customType: "claude-code.transcript-only", data: { content } };
  return { type: "message", message: { role: "user", content, timestamp: time.ms } };
}

function resultBody(block: Line, place: string, pass: Pass, details: unknown): EntryBody {
  const { tool_use_id, content, is_error } = block;
  const toolCallId = textOf(tool_use_id) ?? "";
  const read = readSaid(content ?? [], place, pass);
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId,
      toolName: toolName(pass, toolCallId) ?? "",
      content: typeof read === "string" ? [{ type: "text", text: read }] : read,
      isError: is_error === true,
      ...(details === undefined ? {} : { details }),
      timestamp: pass.time.ms,
    },
  };
}

/** Returns the name of a call's tool; an older one is read from its answer again. Undefined for an unknown call. */
function toolName(pass: Pass, callId: string): string | undefined {
  const { calls } = pass.file;
  const row = calls.tools.has(callId) ? -1 : calls.callers.rowOf(callId);
  if (row < 0) return calls.tools.get(callId);
  const blocks = linesOf(pass, row).flatMap((line) => {
    const { content } = messageOf(line);
    return Array.isArray(content) ? content.filter(isRecord) : [];
  });
  return textOf(blocks.find(({ type, id }) => type === "tool_use" && id === callId)?.["name"]);
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
function attachmentBody(line: Line, place: string, pass: Pass): EntryBody {
  const attachment = isRecord(line["attachment"]) ? line["attachment"] : {};
  const customType = ownType(textOf(attachment["type"]) ?? "attachment");
  const content = renderedContent(line["rendered"], place, pass) ?? queuedPrompt(attachment, place, pass);
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

function renderedContent(rendered: unknown, place: string, pass: Pass): UserContent | undefined {
  if (!Array.isArray(rendered) || rendered.length === 0) return undefined;
  const contents = rendered.filter(isRecord).map(({ content }) => readSaid(content ?? [], place, pass));
  const [only] = contents;
  if (contents.length === 1 && only !== undefined) return only;
  return contents.flatMap((content) => contentBlocks({ content })) as UserContent;
}

/** Returns text that the user typed while the agent was busy; undefined for any other attachment. */
function queuedPrompt({ type, prompt }: Line, place: string, pass: Pass): UserContent | undefined {
  const isPrompt = type === "queued_command" && (typeof prompt === "string" || Array.isArray(prompt));
  return isPrompt ? readSaid(prompt, place, pass) : undefined;
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
