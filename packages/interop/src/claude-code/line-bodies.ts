import { type Entry, isRecord } from "@espalier/session-tree";
import { FormatIssues } from "../formats/format-issue.ts";
import type { EntryBody } from "../import-entry.ts";
import type { ImportIssues } from "../import-issue.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchColumn } from "../scratch/scratch-column.ts";
import { answerBody } from "./answer-body.ts";
import { attachmentBody, stateBody } from "./beside-bodies.ts";
import type { ClaudeCodeFile } from "./claude-code-file.ts";
import { compactionBody } from "./compaction-body.ts";
import type { Hearing, Line } from "./hearing.ts";
import { LineKind } from "./line-kind.ts";
import { userBodies } from "./user-bodies.ts";

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
