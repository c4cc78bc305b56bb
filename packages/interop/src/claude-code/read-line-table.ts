import { type ByteView, forEachLine, parseLine, salvageLine } from "@espalier/jsonl-stream";
import { isRecord } from "../formats/json-record.ts";
import { idFromText } from "../import-ids.ts";
import type { ImportIssues } from "../import-issue.ts";
import { reasonToLeaveOut } from "./aside-lines.ts";
import { ForkClaims } from "./fork-claims.ts";
import type { Line } from "./hearing.ts";
import { factsOf, idText, type LineFacts, LineFactsReader } from "./line-facts.ts";
import { kindOfLine, LineKind, LineMark } from "./line-kind.ts";
import { type LinePlace, LineTable } from "./line-table.ts";

/** What the first pass over a file found. */
export interface FileLines {
  table: LineTable;
  forks: ForkClaims;
  /** Lines of the file, blank ones aside. */
  count: number;
}

/**
 * Reads where the lines of a file belong, in one pass.
 *
 * @param keep takes each row's line, parsed; without it, only what cannot be told from the bytes is parsed
 */
export function readLineTable(
  view: ByteView,
  issues: ImportIssues,
  keep?: (row: number, line: Line) => void,
): FileLines {
  const builder = new TableBuilder(view, issues, keep);
  forEachLine(view, (block, start, end, offset, lineNumber, terminated) => {
    // A byte order mark stands before the content, not in it.
    const contentOffset = offset === 0 && start > 0 ? start : offset;
    builder.take(block, start, end, { lineNumber, offset: contentOffset, length: end - start }, terminated);
  });
  return builder.finish();
}

class TableBuilder {
  readonly #table = new LineTable();
  readonly #forks = new ForkClaims();
  readonly #facts = new LineFactsReader();
  readonly #view: ByteView;
  readonly #issues: ImportIssues;
  readonly #keep: ((row: number, line: Line) => void) | undefined;
  #count = 0;

  constructor(view: ByteView, issues: ImportIssues, keep?: (row: number, line: Line) => void) {
    this.#view = view;
    this.#issues = issues;
    this.#keep = keep;
  }

  take(block: Uint8Array, start: number, end: number, place: LinePlace, terminated: boolean): void {
    if (isBlank(block, start, end)) return;
    this.#count++;
    const parsed = this.#keep && parseLine(block.subarray(start, end));
    if (parsed?.ok && isRecord(parsed.value)) this.#addParsed(parsed.value, place);
    else {
      const facts = this.#facts.read(block, start, end);
      if (facts) this.#add(facts, place);
      else this.#parse(block.subarray(start, end), place, terminated);
    }
  }

  finish(): FileLines {
    this.#table.settle((row) => {
      const message = "The line follows one that is not in the file; it stands as a root.";
      this.#issues.add("phantom-parent", this.#table.lineNumber(row), message);
    });
    this.#forks.apply(this.#table);
    return { table: this.#table, forks: this.#forks, count: this.#count };
  }

  /** A line of whose bytes alone nothing can be told. */
  #parse(bytes: Uint8Array, place: LinePlace, terminated: boolean): void {
    const { lineNumber, offset, length } = place;
    const parsed = parseLine(bytes);
    const salvaged = parsed.ok || !terminated ? undefined : salvageLine(bytes, '{"');
    const line = parsed.ok ? parsed.value : salvaged?.value;
    if (isRecord(line)) {
      const start = salvaged?.start ?? 0;
      if (salvaged) this.#issues.add("salvaged", lineNumber, SALVAGED);
      this.#addParsed(line, { lineNumber, offset: offset + start, length: length - start });
    } else if (terminated || parsed.ok) this.#issues.add("bad-line", lineNumber, BAD_LINE);
    else this.#issues.add("torn-line", lineNumber, "The last line was cut while it was written.");
  }

  #addParsed(line: Line, place: LinePlace): void {
    const row = this.#add(factsOf(line), place);
    if (row >= 0) this.#keep?.(row, line);
  }

  /** The row of the line; -1 when it becomes none. */
  #add(facts: LineFacts, place: LinePlace): number {
    const table = this.#table;
    const { id, type, parentId, forkedFrom } = facts;
    const kind = kindOfLine(type, id.length > 0);
    if (kind === LineKind.aside) {
      const reason = reasonToLeaveOut(type);
      if (reason === undefined) return table.add(NO_BYTES, kind, facts, place);
      this.#issues.add("bookkeeping", place.lineNumber, reason);
      return -1;
    }
    const older = id.length > 0 ? table.rowOfBytes(id, 0, id.length) : -1;
    if (older >= 0 && this.#isSame(older, place)) {
      this.#issues.add("duplicate-line", place.lineNumber, "The same line stands above; it counts once.");
      return -1;
    }
    const row = table.add(older < 0 ? id : NO_BYTES, kind, facts, place);
    if (older >= 0 || id.length === 0) this.#rename(row, id, place);
    if (parentId !== undefined) table.follow(row, parentId);
    if (forkedFrom !== undefined) this.#forks.claim(row, forkedFrom);
    return row;
  }

  #rename(row: number, id: Uint8Array, { lineNumber }: LinePlace): void {
    this.#table.mark(row, LineMark.renamed);
    this.#table.renamed.set(row, idFromText(`${idText(id)}#${lineNumber}`));
    if (id.length === 0) this.#issues.add("no-id", lineNumber, "A message has no id; it gets one here.");
    else
      this.#issues.add(
        "duplicate-id",
        lineNumber,
        "Another line above has this id; this one gets another here.",
      );
  }

  #isSame(row: number, { offset, length }: LinePlace): boolean {
    if (this.#table.lineLength(row) !== length) return false;
    const above = this.#view.read(this.#table.offset(row), length);
    const here = this.#view.read(offset, length);
    return above.every((byte, at) => byte === here[at]);
  }
}

const NO_BYTES = new Uint8Array();

const SALVAGED = "A whole line stood behind one that was cut; it counts.";
const BAD_LINE = "The line cannot be read: it is not the JSON of an object.";

function isBlank(block: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = block[at];
    if (byte !== 32 && byte !== 9 && byte !== 13) return false;
  }
  return true;
}
