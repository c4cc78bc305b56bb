// Separate from file.ts: positions and marks of lines, as numbers; the file has their content.
import { type ByteView, forEachLine } from "@espalier/jsonl-stream";
import { isRecord, ROOT } from "@espalier/session-tree";
import { LINE_ISSUES, readSourceLine } from "../import/draft.ts";
import type { ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { type Hash, HashRows, type ScratchArea, type ScratchColumn } from "../scratch/space.ts";
import {
  hasPlace,
  kindOfLine,
  type Line,
  LineKind,
  LineMark,
  marksOf,
  reasonToLeaveOut,
  scanLine,
} from "./line-facts.ts";

/** A parent that is named but missing in the file. */
const PHANTOM = -3;

/** Position of a line in its file; line numbers are from 1. */
interface LinePlace {
  lineNumber: number;
  offset: number;
  length: number;
}

/** Number of bits of a kind; the line's marks are in the same number. */
const KIND_BITS = 4;
const KIND_MASK = (1 << KIND_BITS) - 1;

/**
 * Lines of a file as columns of numbers: position, kind, parent. Rows are in file order. The content of a line is read
 * again when it is needed.
 */
export class LineTable {
  readonly #hash: ScratchArea["hash"];
  readonly #ids: HashRows;
  readonly #answers: HashRows;
  readonly offset: ScratchColumn<Float64Array>;
  readonly lineLength: ScratchColumn<Uint32Array>;
  /** Numbers of the lines, from 1. */
  readonly lineNumber: ScratchColumn<Uint32Array>;
  /** Parent row according to the file, `ROOT`, or {@link PHANTOM}. Setting it does not change the marks of followed rows. */
  readonly parent: ScratchColumn<Int32Array>;
  /** Hash of a parent that was not found above its child. */
  readonly #wantedHigh: ScratchColumn<Int32Array>;
  readonly #wantedLow: ScratchColumn<Int32Array>;
  /** Kind and marks of each row. */
  readonly #nature: ScratchColumn<Int32Array>;
  /** For each part of an answer, the first row that named the answer; -1 for all other rows. */
  readonly message: ScratchColumn<Int32Array>;
  length = 0;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#ids = new HashRows(area);
    this.#answers = new HashRows(area);
    this.offset = area.column(Float64Array);
    this.lineLength = area.column(Uint32Array);
    this.lineNumber = area.column(Uint32Array);
    this.parent = area.column(Int32Array, ROOT);
    this.#wantedHigh = area.column(Int32Array);
    this.#wantedLow = area.column(Int32Array);
    this.#nature = area.column(Int32Array);
    this.message = area.column(Int32Array, -1);
  }

  kind(row: number): number {
    return this.#nature.get(row) & KIND_MASK;
  }

  has(row: number, mark: number): boolean {
    return ((this.#nature.get(row) >>> KIND_BITS) & mark) !== 0;
  }

  mark(row: number, mark: number): void {
    this.#nature.set(row, this.#nature.get(row) | (mark << KIND_BITS));
  }

  unmark(row: number, mark: number): void {
    this.#nature.set(row, this.#nature.get(row) & ~(mark << KIND_BITS));
  }

  /** Returns the first row of a line with this id; -1 when there is none. */
  rowOf(id: string): number {
    return this.#ids.rowOf(id);
  }

  /** Returns the first row of a hashed id; -1 when there is none. */
  rowOfHash(hash: Hash): number {
    return this.#ids.find(hash);
  }

  /**
   * Adds a line; a line with an empty id is never found.
   *
   * @returns the first row with this id: the added row, unless an earlier one has it
   */
  add(line: Line, id: string, kind: number, place: LinePlace): number {
    const row = this.length++;
    this.offset.set(row, place.offset);
    this.lineLength.set(row, place.length);
    this.lineNumber.set(row, place.lineNumber);
    this.#nature.set(row, kind | (marksOf(line) << KIND_BITS));
    const { type, message } = line;
    const answerId = type === "assistant" && isRecord(message) ? textOf(message["id"]) : "";
    if (answerId !== "") this.message.set(row, this.#answers.add(answerId, row));
    return id === "" ? row : this.#ids.add(id, row);
  }

  /** Sets the parent of a row by the parent's id; {@link settle} finds a parent that is further below. */
  follow(row: number, parentId: string): void {
    const parent = this.#ids.rowOf(parentId);
    if (parent >= 0) this.#setFollowed(row, parent);
    else {
      this.parent.set(row, PHANTOM);
      this.#wantedHigh.set(row, this.#hash.high);
      this.#wantedLow.set(row, this.#hash.low);
    }
  }

  /**
   * Returns the last row above this one in the file that is in the same conversation, without progress lines; -1 when
   * there is none.
   */
  rowBefore(row: number): number {
    const isSide = this.has(row, LineMark.sidechain);
    for (let above = row - 1; above >= 0; above--) {
      const kind = this.kind(above);
      if (!hasPlace(kind) || kind === LineKind.progress) continue;
      if (this.has(above, LineMark.sidechain) === isSide) return above;
    }
    return -1;
  }

  /** Moves a row whose parent was lost below another row. */
  bridge(row: number, above: number): void {
    this.#setFollowed(row, above);
    this.mark(row, LineMark.bridged);
  }

  /**
   * Finds the parents that are below their children, after all lines were added; returns the rows whose parent is
   * missing.
   */
  settle(): number[] {
    const missing: number[] = [];
    for (let row = 0; row < this.length; row++) {
      if (this.parent.get(row) !== PHANTOM) continue;
      const parent = this.#ids.find({ high: this.#wantedHigh.get(row), low: this.#wantedLow.get(row) });
      if (parent >= 0) this.#setFollowed(row, parent);
      else missing.push(row);
    }
    return missing;
  }

  /**
   * Drops the rows of progress that lead to no other row; `told` receives each of them. Marks of followed rows no longer
   * count them.
   */
  dropDeadEnds(told: (row: number) => void): void {
    const isDeadEnd = (row: number) =>
      this.kind(row) === LineKind.progress && !this.has(row, LineMark.followed);
    for (let row = 0; row < this.length; row++) this.unmark(row, LineMark.followed);
    for (let row = this.length - 1; row >= 0; row--) {
      const parent = this.parent.get(row);
      if (parent >= 0 && hasPlace(this.kind(row)) && !isDeadEnd(row)) this.mark(parent, LineMark.followed);
    }
    for (let row = 0; row < this.length; row++) {
      if (!isDeadEnd(row)) continue;
      told(row);
      this.drop(row);
    }
  }

  /** Removes a row from the tree. */
  drop(row: number): void {
    this.#nature.set(row, LineKind.repeated);
    this.message.set(row, -1);
    this.parent.set(row, ROOT);
  }

  #setFollowed(row: number, parent: number): void {
    this.parent.set(row, parent);
    this.mark(parent, LineMark.followed);
  }
}

/** Result of the first pass over a file. */
export interface FileLines {
  table: LineTable;
  forks: ForkClaims;
}

/** Reads the position of each line of a file in one pass; parses a line only when its bytes alone are not enough. */
export function readLineTable(view: ByteView, area: ScratchArea, issues: ImportIssues): FileLines {
  const table = new LineTable(area);
  const forks = new ForkClaims(table, area);
  let firstUnreadable = Number.POSITIVE_INFINITY;
  const tell = (kind: ImportIssueKind, row: number, message: string): void =>
    issues.add(kind, table.lineNumber.get(row), message);

  const add = (line: Line, place: LinePlace): void => {
    const type = textOf(line["type"]);
    const id = textOf(line["uuid"]);
    const kind = kindOfLine(type, id !== "");
    if (kind === LineKind.aside) {
      const reason = reasonToLeaveOut(type);
      if (reason === undefined) table.add(line, "", kind, place);
      else issues.add("bookkeeping", place.lineNumber, reason);
      return;
    }
    const row = table.length;
    const first = table.add(line, id, kind, place);
    if (first !== row && isSameLine(row, first, table, view)) {
      tell("duplicate-line", row, "The same line appears twice; it was read once.");
      table.drop(row);
      return;
    }
    if (first !== row || id === "") table.mark(row, LineMark.renamed);
    if (first !== row)
      tell("duplicate-id", row, "Two messages have the same id; the second one got another.");
    else if (id === "") tell("no-id", row, "A message has no id; it got one.");
    if (typeof line["parentUuid"] === "string") table.follow(row, line["parentUuid"]);
    forks.claim(row, line["forkedFrom"]);
  };

  forEachLine(view, (block, start, end, from, lineNumber, terminated) => {
    // A byte order mark precedes the content and is not part of it.
    const offset = from === 0 && start > 0 ? start : from;
    const scanned = scanLine(block, start, end);
    if (scanned) return add(scanned, { lineNumber, offset, length: end - start });
    const { line, skipped, issue } = readSourceLine(block.subarray(start, end), terminated, (value) =>
      isRecord(value) ? value : undefined,
    );
    if (issue) issues.add(issue, lineNumber, LINE_ISSUES[issue]);
    if (line) add(line, { lineNumber, offset: offset + skipped, length: end - start - skipped });
    else if (issue === "bad-line") firstUnreadable = Math.min(firstUnreadable, lineNumber);
  });

  for (const row of table.settle()) {
    // The parent may have been in an unreadable line above.
    const above = firstUnreadable > table.lineNumber.get(row) ? -1 : table.rowBefore(row);
    if (above >= 0) {
      table.bridge(row, above);
      tell("bridged", row, BRIDGED);
    } else tell("phantom-parent", row, PHANTOM_PARENT);
  }
  table.dropDeadEnds((row) => tell("bookkeeping", row, "Progress of a tool or hook that led to no message."));
  forks.settle();
  return { table, forks };
}

const PHANTOM_PARENT = "A message follows one that is not in the file; shown as a separate branch.";
const BRIDGED =
  "A message follows a damaged line; it is shown after the message before that line, with a mark between them.";

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

function isSameLine(row: number, first: number, table: LineTable, view: ByteView): boolean {
  const length = table.lineLength.get(row);
  if (table.lineLength.get(first) !== length) return false;
  const above = view.read(table.offset.get(first), length);
  const here = view.read(table.offset.get(row), length);
  return above.every((byte, at) => byte === here[at]);
}

/**
 * Originals of the copied lines of a fork. A copied line gets the id of its original, so that both are one entry and
 * its tokens are counted once.
 */
class ForkClaims {
  /** Id of the session from which the file was forked. */
  sessionId: string | undefined;
  /** Last copied row; -1 when there is none. */
  lastRow = -1;
  readonly #table: LineTable;
  /** Rows by the id in the original. */
  readonly #claims: HashRows;

  constructor(table: LineTable, area: ScratchArea) {
    this.#table = table;
    this.#claims = new HashRows(area);
  }

  /**
   * Adds the claim of a line to be the copy of another session's line (`forkedFrom`). If several lines claim the same
   * original, the fork begins there, and none of them is a copy of it.
   */
  claim(row: number, forkedFrom: unknown): void {
    if (!isRecord(forkedFrom)) return;
    const { sessionId, messageUuid } = forkedFrom;
    if (typeof sessionId === "string") this.sessionId ??= sessionId;
    if (typeof messageUuid !== "string" || messageUuid === "") return;
    const first = this.#claims.add(messageUuid, row);
    if (first === row) this.#table.mark(row, LineMark.claimed);
    else this.#table.unmark(first, LineMark.claimed);
  }

  /** Drops claims to the ids of other lines of the file, and claims of renamed lines; sets the last copied row. */
  settle(): void {
    const table = this.#table;
    this.#claims.forEach((hash, row) => {
      if (!table.has(row, LineMark.claimed)) return;
      const own = table.rowOfHash(hash);
      if (table.has(row, LineMark.renamed) || (own >= 0 && own !== row)) table.unmark(row, LineMark.claimed);
      else this.lastRow = Math.max(this.lastRow, row);
    });
  }
}

/** Returns the id of a line's original, as the line names it. */
export function originalId(line: Line | undefined): unknown {
  const forkedFrom = line?.["forkedFrom"];
  return isRecord(forkedFrom) ? forkedFrom["messageUuid"] : undefined;
}
