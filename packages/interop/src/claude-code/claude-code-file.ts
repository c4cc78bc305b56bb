import { parseLine } from "@espalier/jsonl-stream";
import { isRecord } from "../formats/json-record.ts";
import { idFromSource, idFromText } from "../import-ids.ts";
import { ImportIssues } from "../import-issue.ts";
import { LineReader } from "../import-line-reader.ts";
import { type SourceFile, sourceName } from "../import-source.ts";
import { AnswerParts } from "./answer-parts.ts";
import { Boundaries } from "./boundaries.ts";
import { CallBook } from "./call-book.ts";
import type { Line } from "./hearing.ts";
import { type FileLines, readLineTable } from "./read-line-table.ts";
import { readSessionFacts, type SessionFacts } from "./session-facts.ts";
import { sidechains } from "./sidechains.ts";

/** Up to this size a file is held in memory while it is read; larger ones are read twice. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** A file of Claude Code. What it takes to read it all is read when it is first needed. */
export class ClaudeCodeFile {
  readonly source: SourceFile;
  readonly issues = new ImportIssues();
  /** Complete when the entries of the conversation have been read. */
  readonly calls = new CallBook();
  callsRead = false;
  readonly #reader: LineReader;
  /** Lines of a small file, so that it is parsed once. */
  readonly #kept = new Map<number, Line>();
  #facts: SessionFacts | undefined;
  #lines: FileLines | undefined;
  #boundaries: Boundaries | undefined;
  #runs: Int32Array | undefined;
  #answers: AnswerParts | undefined;

  constructor(source: SourceFile) {
    this.source = source;
    this.#reader = new LineReader(source.view);
  }

  get facts(): SessionFacts {
    this.#facts ??= readSessionFacts(this.source.view);
    return this.#facts;
  }

  get lines(): FileLines {
    const { view } = this.source;
    const keep = view.size <= KEPT_BYTES ? (row: number, line: Line) => this.#kept.set(row, line) : undefined;
    this.#lines ??= readLineTable(view, this.issues, keep);
    return this.#lines;
  }

  get boundaries(): Boundaries {
    this.#boundaries ??= new Boundaries(this.lines.table, this.#reader, this.issues);
    return this.#boundaries;
  }

  /** For each row the row its run begins with, see {@link sidechains}. */
  get runs(): Int32Array {
    this.#runs ??= sidechains(this.lines.table);
    return this.#runs;
  }

  /** A line, parsed; undefined when it is not JSON after all. */
  lineAt(row: number): Line | undefined {
    const kept = this.#kept.get(row);
    if (kept) return kept;
    const parsed = parseLine(this.bytesAt(row));
    return parsed.ok && isRecord(parsed.value) ? parsed.value : undefined;
  }

  /** The bytes of a line, good until the next line is read. */
  bytesAt(row: number): Uint8Array {
    const { table } = this.lines;
    return this.#reader.read(table.offset(row), table.lineLength(row));
  }

  /** The id of a row's entry: the one in its line, where it can be one here. */
  idOf(row: number, line = this.lineAt(row)): string {
    const { table } = this.lines;
    const given = table.renamed.get(row) ?? line?.["uuid"];
    if (typeof given === "string" && given !== "") return idFromSource(given);
    return idFromText(`${this.facts.sessionId ?? ""}#${table.lineNumber(row)}`);
  }

  /** The id of the entry that a row becomes a part of. */
  entryIdOf(row: number): string {
    this.#answers ??= new AnswerParts(this.lines.table, () => "");
    return this.idOf(this.#answers.headOf(row));
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A file is named after its session; lines that were copied from an older one may name that. */
export function sessionIdOf({ source, facts }: ClaudeCodeFile): string {
  const name = sourceName(source.path);
  return UUID.test(name) ? name : (facts.sessionId ?? name);
}
