import { LONGEST_PARSED, parseLine } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";
import { idFromSource, idFromText } from "../import-ids.ts";
import { ImportIssues } from "../import-issue.ts";
import { LineReader } from "../import-line-reader.ts";
import { type SourceFile, sourceName } from "../import-source.ts";
import { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchSpace } from "../scratch/scratch-space.ts";
import { AnswerParts } from "./answer-parts.ts";
import { Boundaries } from "./boundaries.ts";
import { CallBook } from "./call-book.ts";
import { originalId } from "./fork-claims.ts";
import type { Line } from "./hearing.ts";
import { LineMark } from "./line-kind.ts";
import { type FileLines, readLineTable } from "./read-line-table.ts";
import { readSessionFacts, type SessionFacts } from "./session-facts.ts";
import { Sidechains } from "./sidechains.ts";

/** Up to this size a file is held in memory while it is read; larger ones are read twice. */
const KEPT_BYTES = 16 * 1024 * 1024;

/** A file of Claude Code. What it takes to read it all is read when it is first needed. */
export class ClaudeCodeFile {
  readonly source: SourceFile;
  readonly issues = new ImportIssues();
  /** Complete when the entries of the conversation have been read. */
  calls: CallBook;
  callsRead = false;
  readonly #reader: LineReader;
  /** Lines of a small file, so that it is parsed once. */
  readonly #kept = new Map<number, Line>();
  #facts: SessionFacts | undefined;
  #lines: FileLines | undefined;
  #boundaries: Boundaries | undefined;
  #runs: Sidechains | undefined;
  #answers: AnswerParts | undefined;

  /** True when what is wrong with the lines was told before. */
  #isTold = false;
  readonly #space: ScratchSpace;
  /** What is kept of all lines. */
  readonly #area: ScratchArea;

  constructor(source: SourceFile, space: ScratchSpace) {
    this.source = source;
    this.#space = space;
    this.#area = new ScratchArea(space);
    this.calls = new CallBook(this.#area);
    this.#reader = new LineReader(source.view);
  }

  get facts(): SessionFacts {
    this.#facts ??= readSessionFacts(this.source.view);
    return this.#facts;
  }

  get lines(): FileLines {
    this.#lines ??= this.#readLines();
    return this.#lines;
  }

  get boundaries(): Boundaries {
    this.#boundaries ??= new Boundaries(this.lines.table, this.#reader, this.#ear);
    return this.#boundaries;
  }

  get runs(): Sidechains {
    this.#runs ??= new Sidechains(this.lines.table, this.#area);
    return this.#runs;
  }

  /** A line, parsed; undefined when it is not JSON after all. */
  lineAt(row: number): Line | undefined {
    const kept = this.#kept.get(row);
    if (kept) return kept;
    if (this.lines.table.lineLength(row) > LONGEST_PARSED) return undefined;
    const parsed = parseLine(this.bytesAt(row));
    return parsed.ok && isRecord(parsed.value) ? parsed.value : undefined;
  }

  /** The bytes of a line, or its first `longest`; good until the next line is read. */
  bytesAt(row: number, longest = Number.POSITIVE_INFINITY): Uint8Array {
    const { table } = this.lines;
    return this.#reader.read(table.offset(row), Math.min(table.lineLength(row), longest));
  }

  /** The id of a row's entry: the one in its line, where it can be one here. */
  idOf(row: number, line = this.lineAt(row)): string {
    const { table } = this.lines;
    const own = line?.["uuid"];
    if (table.has(row, LineMark.renamed))
      return idFromText(`${typeof own === "string" ? own : ""}#${table.lineNumber(row)}`);
    const given = table.has(row, LineMark.claimed) ? originalId(line) : own;
    if (typeof given === "string" && given !== "") return idFromSource(given);
    return idFromText(`${this.facts.sessionId ?? ""}#${table.lineNumber(row)}`);
  }

  /** Room for what is kept during one pass; whoever asked gives it back. */
  newArea(): ScratchArea {
    return new ScratchArea(this.#space);
  }

  /** When the entries have been read: lines are read anew from now on. */
  forgetLines(): void {
    this.#kept.clear();
  }

  /** Gives back all that is kept of the lines. Whoever still asks has them read once more. */
  close(): void {
    this.forgetLines();
    this.#area.close();
    this.#lines = undefined;
    this.#boundaries = undefined;
    this.#runs = undefined;
    this.#answers = undefined;
    this.calls = new CallBook(this.#area);
    this.callsRead = false;
    this.#isTold = true;
  }

  #readLines(): FileLines {
    const { view } = this.source;
    const keep = view.size <= KEPT_BYTES ? (row: number, line: Line) => this.#kept.set(row, line) : undefined;
    return readLineTable(view, this.#area, this.#ear, keep);
  }

  get #ear(): ImportIssues {
    return this.#isTold ? new ImportIssues() : this.issues;
  }

  /** The id of the entry that a row becomes a part of. */
  entryIdOf(row: number): string {
    this.#answers ??= new AnswerParts(this.lines.table, this.#area, () => "");
    return this.idOf(this.#answers.headOf(row));
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** A file is named after its session; lines that were copied from an older one may name that. */
export function sessionIdOf({ source, facts }: ClaudeCodeFile): string {
  const name = sourceName(source.path);
  return UUID.test(name) ? name : (facts.sessionId ?? name);
}
