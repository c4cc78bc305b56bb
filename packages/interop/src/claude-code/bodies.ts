import { type ContentBlock, type Entry, isRecord, messageText } from "@espalier/session-tree";
import { answerFacts, blocksOf, readAnswerBlock } from "../formats/anthropic-blocks.ts";
import { FormatIssues } from "../formats/conversation.ts";
import { type EntryBody, NO_COST } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import type { ClaudeCodeFile } from "./file.ts";
import { type Hearing, type Line, LineKind } from "./line-facts.ts";
import { attachmentBody, stateBody, userBodies } from "./user-bodies.ts";

/** Bytes that are kept of a line that cannot be read. */
const LONGEST_UNREADABLE = 1 << 20;

/** Reads what rows say, one after the other: later ones need to know of earlier ones. */
export class LineBodies {
  readonly #file: ClaudeCodeFile;
  readonly #issues: ImportIssues;
  readonly #hearing: Hearing;
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
    this.#hearing = {
      content: new FormatIssues(),
      toolName: (callId) => file.calls.recentTool(callId) ?? this.#olderTool(callId),
      model: "unknown",
    };
  }

  /** The entries that a row becomes. An answer is read from all its lines; every other row from one. */
  bodies(row: number, lines: readonly Line[], timestamp: number): EntryBody[] {
    const { table } = this.#file.lines;
    const [line] = lines;
    const place = String(table.lineNumber(row));
    if (line === undefined) return [this.#unreadable(row)];
    const kind = table.kind(row);
    if (kind === LineKind.user) return userBodies(line, place, timestamp, this.#hearing);
    if (kind === LineKind.assistant) return [this.#answer(row, lines, place, timestamp)];
    if (kind === LineKind.attachment) return [attachmentBody(line, place, this.#hearing.content)];
    const type = String(line["type"]);
    if (kind === LineKind.unknown)
      this.#issues.add(
        "unknown-type",
        table.lineNumber(row),
        "Lines of a type that is not known are kept as state.",
      );
    return [stateBody(line, typeof line["subtype"] === "string" ? line["subtype"] : type)];
  }

  /** A compaction out of its summary; `firstKept` is the entry from which on everything stays. */
  compaction(summary: Line, metadata: Line, firstKept: string): EntryBody {
    const { model } = this.#hearing;
    return compactionBody(summary, metadata, firstKept, { provider: "anthropic", modelId: model });
  }

  /** Takes down what those that come later need to know of an entry. */
  notice(entry: Entry, line: Line | undefined, row: number): number {
    const { message } = entry as Entry & { message?: Record<string, unknown> };
    const { calls } = this.#file;
    if (message?.["role"] === "assistant") {
      this.#hearing.model = String(message["model"]);
      return calls.takeAnswer(entry, row);
    }
    if (line && message?.["role"] === "toolResult") calls.takeResult(line, String(message["toolCallId"]));
    return 0;
  }

  /** Hands on what was noticed inside the messages that were read last. */
  tellContentIssues(): void {
    const { content } = this.#hearing;
    if (content.isEmpty) return;
    for (const { path, message } of content.list())
      this.#issues.add("content", Number.parseInt(path, 10), message);
    this.#hearing.content = new FormatIssues();
  }

  #answer(row: number, lines: readonly Line[], place: string, timestamp: number): EntryBody {
    const number = this.#file.lines.table.message(row);
    const counts = number < 0 || this.#counted.get(number) === 0;
    if (number >= 0) this.#counted.set(number, 1);
    return answerBody(lines, place, timestamp, this.#hearing, counts);
  }

  /** The name of a call's tool, read again where the answer stands. */
  #olderTool(callId: string): string | undefined {
    const row = this.#file.calls.rowOf(callId);
    if (row < 0) return undefined;
    const blocks = this.#linesOf(row).flatMap(({ message }) =>
      isRecord(message) && Array.isArray(message["content"]) ? message["content"].filter(isRecord) : [],
    );
    const called = blocks.find(({ type, id }) => type === "tool_use" && id === callId);
    return typeof called?.["name"] === "string" ? called["name"] : undefined;
  }

  /** The place is known, what the line says is not: it keeps what follows it together. */
  #unreadable(row: number): EntryBody {
    const { table } = this.#file.lines;
    const isShort = table.lineLength(row) <= LONGEST_UNREADABLE;
    const message = isShort
      ? "The line is no sound JSON: its place in the tree is kept, its text as state."
      : "The line is no sound JSON, or longer than can be parsed: its place in the tree is kept, of its text the first 1 MiB as state.";
    this.#issues.add("unreadable-content", table.lineNumber(row), message);
    const text = new TextDecoder().decode(this.#file.bytesAt(row, LONGEST_UNREADABLE));
    return { type: "custom", customType: "claude-code.unreadable", data: { text } };
  }
}

/** True for bodies that a model reads. */
export function speaks(bodies: readonly EntryBody[]): boolean {
  return bodies.some(({ type }) => type === "message" || type === "custom_message");
}

/** What stands in place of a model where the agent itself wrote the answer. */
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
  hearing: Hearing,
  counts: boolean,
): EntryBody {
  const messages = lines.map(messageOf);
  const content = inOrder(lines, messages).flatMap((message) =>
    readAnswer(message["content"], place, hearing),
  );
  const { role: _role, content: _content, ...facts } = messages.at(-1) ?? {};
  const { said, unread } = answerFacts(facts);
  hearing.content.dropped(unread, place);
  const { model = hearing.model, usage, ...ended } = said;
  return {
    type: "message",
    message: {
      role: "assistant",
      content,
      api: "anthropic-messages",
      provider: "anthropic",
      model: model === SYNTHETIC ? hearing.model : model,
      ...(typeof facts["id"] === "string" ? { responseId: facts["id"] } : {}),
      ...(usage && counts ? { usage: { ...usage, cost: NO_COST } } : {}),
      stopReason: content.some((block) => block.type === "toolCall") ? "toolUse" : "stop",
      ...ended,
      ...(lines.some(isFailure) ? { stopReason: "error", errorMessage: textOf(content) } : {}),
      timestamp,
    },
    ...(lines.length > 1 ? { sourceLines: lines.length } : {}),
  };
}

const messageOf = (line: Line): Line => (isRecord(line["message"]) ? line["message"] : {});
const isFailure = (line: Line): boolean => line["isApiErrorMessage"] === true;

function readAnswer(content: unknown, place: string, { content: issues }: Hearing): ContentBlock[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return blocksOf(content, place, issues).flatMap(([block, at]) => readAnswerBlock(block, at, issues));
}

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

const textOf = (content: readonly ContentBlock[]): string =>
  content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");

/** What is in force where a compaction stands. Claude Code's files do not name a thinking level: it is the default. */
interface Force {
  provider: string;
  modelId: string;
}

/** A compaction out of its summary, what its boundary says, and the first line it keeps (undefined: none). */
function compactionBody(
  summary: Line,
  metadata: Line,
  firstKeptEntryId: string,
  inForce: Force | undefined,
): EntryBody {
  const { trigger, preTokens } = metadata;
  const message = isRecord(summary["message"]) ? summary["message"] : {};
  return {
    type: "compaction",
    summary: messageText({ role: "user", content: message["content"] as string, timestamp: 0 }),
    firstKeptEntryId,
    tokensBefore: typeof preTokens === "number" ? preTokens : 0,
    details: {
      ...(typeof trigger === "string" ? { reason: trigger } : {}),
      ...(inForce ? { settings: { ...inForce, thinkingLevel: "off" } } : {}),
      "claude-code": metadata,
    },
  };
}
