import { type ByteView, forEachLine, parseLine, salvageLine } from "@espalier/jsonl-stream";
import { isRecord, ROOT } from "@espalier/session-tree";
import type { ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { type Hash, HashRows, type ScratchArea, type ScratchColumn } from "../scratch/space.ts";
import {
  factsOf,
  hasPlace,
  kindOfLine,
  type LineFacts,
  LineFactsReader,
  LineKind,
  LineMark,
  reasonToLeaveOut,
} from "./line-facts.ts";

/** A parent that is named but missing in the file. */
export const PHANTOM = -3;

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
  readonly #offset: ScratchColumn<Float64Array>;
  readonly #lineLength: ScratchColumn<Uint32Array>;
  readonly #lineNumber: ScratchColumn<Uint32Array>;
  readonly #parent: ScratchColumn<Int32Array>;
  /** Hash of a parent that was not found above its child. */
  readonly #wantedHigh: ScratchColumn<Int32Array>;
  readonly #wantedLow: ScratchColumn<Int32Array>;
  /** Kind and marks of each row. */
  readonly #nature: ScratchColumn<Int32Array>;
  /** For each part of an answer, the first row that named the answer; -1 for all other rows. */
  readonly #message: ScratchColumn<Int32Array>;
  length = 0;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#ids = new HashRows(area);
    this.#answers = new HashRows(area);
    this.#offset = area.floats();
    this.#lineLength = area.words();
    this.#lineNumber = area.words();
    this.#parent = area.integers(ROOT);
    this.#wantedHigh = area.integers();
    this.#wantedLow = area.integers();
    this.#nature = area.integers();
    this.#message = area.integers(-1);
  }

  offset(row: number): number {
    return this.#offset.get(row);
  }

  lineLength(row: number): number {
    return this.#lineLength.get(row);
  }

  kind(row: number): number {
    return this.#nature.get(row) & KIND_MASK;
  }

  /** Returns the number of a line, from 1. */
  lineNumber(row: number): number {
    return this.#lineNumber.get(row);
  }

  /** Returns the parent row according to the file, `ROOT`, or {@link PHANTOM}. */
  parent(row: number): number {
    return this.#parent.get(row);
  }

  /** Returns the first row of the file that names the row's answer; -1 for a row that is not part of an answer. */
  message(row: number): number {
    return this.#message.get(row);
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
    if (id === "") return -1;
    this.#hash.hashText(id);
    return this.#ids.find(this.#hash);
  }

  /** Returns the first row of a hashed id. */
  rowOfHash(hash: Hash): number {
    return this.#ids.find(hash);
  }

  /**
   * Adds a line; a line with an empty id is never found.
   *
   * @returns the first row with the same id; -1 when there is none
   */
  add(id: Uint8Array, kind: number, { marks, message }: LineFacts, place: LinePlace): number {
    const row = this.length++;
    this.#offset.set(row, place.offset);
    this.#lineLength.set(row, place.length);
    this.#lineNumber.set(row, place.lineNumber);
    this.#nature.set(row, kind | (marks << KIND_BITS));
    if (message) this.#message.set(row, this.#firstOf(this.#answers, message, row));
    const first = id.length > 0 ? this.#firstOf(this.#ids, id, row) : row;
    return first === row ? -1 : first;
  }

  /** Sets the parent of a row by its id; a parent further below is found by {@link settle}. */
  follow(row: number, parentId: Uint8Array): void {
    this.#hash.hash(parentId, 0, parentId.length);
    const parent = this.#ids.find(this.#hash);
    if (parent >= 0) this.#setFollowed(row, parent);
    else {
      this.setParent(row, PHANTOM);
      this.#wantedHigh.set(row, this.#hash.high);
      this.#wantedLow.set(row, this.#hash.low);
    }
  }

  /** Moves a row; the marks of followed rows do not change. */
  setParent(row: number, parent: number): void {
    this.#parent.set(row, parent);
  }

  /** Returns the last row above this one in the file that is in the same conversation; -1 when there is none. */
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
      if (this.parent(row) !== PHANTOM) continue;
      const parent = this.#ids.find({ high: this.#wantedHigh.get(row), low: this.#wantedLow.get(row) });
      if (parent >= 0) this.#setFollowed(row, parent);
      else missing.push(row);
    }
    return missing;
  }

  /**
   * Drops the rows of a kind that lead to no row of another kind; `told` receives each of them. Their parents lose the
   * mark.
   */
  dropDeadEnds(kind: number, told: (row: number) => void): void {
    for (let row = 0; row < this.length; row++) this.unmark(row, LineMark.followed);
    for (let row = this.length - 1; row >= 0; row--) {
      if (!hasPlace(this.kind(row))) continue;
      const parent = this.parent(row);
      if (this.kind(row) === kind && !this.has(row, LineMark.followed)) continue;
      if (parent >= 0) this.mark(parent, LineMark.followed);
    }
    for (let row = 0; row < this.length; row++) {
      if (this.kind(row) !== kind || this.has(row, LineMark.followed)) continue;
      told(row);
      this.drop(row);
    }
  }

  /** Removes a row from the tree. */
  drop(row: number): void {
    this.#nature.set(row, LineKind.repeated);
    this.#message.set(row, -1);
    this.setParent(row, ROOT);
  }

  #setFollowed(row: number, parent: number): void {
    this.setParent(row, parent);
    this.mark(parent, LineMark.followed);
  }

  #firstOf(rows: HashRows, id: Uint8Array, row: number): number {
    this.#hash.hash(id, 0, id.length);
    const first = rows.find(this.#hash);
    if (first < 0) rows.set(this.#hash, row);
    return first < 0 ? row : first;
  }
}

/** Result of the first pass over a file. */
export interface FileLines {
  table: LineTable;
  forks: ForkClaims;
  /** Number of lines of the file without blank ones. */
  count: number;
}

/** Reads the position of each line of a file in one pass; parses a line only when its bytes alone are not enough. */
export function readLineTable(view: ByteView, area: ScratchArea, issues: ImportIssues): FileLines {
  const builder = new TableBuilder(view, area, issues);
  forEachLine(view, (block, start, end, offset, lineNumber, terminated) => {
    // A byte order mark precedes the content and is not part of it.
    const contentOffset = offset === 0 && start > 0 ? start : offset;
    builder.take(block, start, end, { lineNumber, offset: contentOffset, length: end - start }, terminated);
  });
  return builder.finish();
}

class TableBuilder {
  readonly #table: LineTable;
  readonly #forks: ForkClaims;
  readonly #facts = new LineFactsReader();
  readonly #view: ByteView;
  readonly #issues: ImportIssues;
  #count = 0;
  /** Number of the first unreadable line. */
  #firstLost = Number.POSITIVE_INFINITY;

  constructor(view: ByteView, area: ScratchArea, issues: ImportIssues) {
    this.#table = new LineTable(area);
    this.#forks = new ForkClaims(area);
    this.#view = view;
    this.#issues = issues;
  }

  take(block: Uint8Array, start: number, end: number, place: LinePlace, terminated: boolean): void {
    if (isBlank(block, start, end)) return;
    this.#count++;
    const facts = this.#facts.read(block, start, end);
    if (facts) this.#add(facts, place);
    else this.#parse(block.subarray(start, end), place, terminated);
  }

  finish(): FileLines {
    const table = this.#table;
    for (const row of table.settle()) {
      const above = this.#rowBeforeGap(row);
      if (above >= 0) table.bridge(row, above);
      this.#tell(
        above < 0 ? "phantom-parent" : "bridged",
        row,
        above < 0
          ? "A message follows one that is not in the file; shown as a separate branch."
          : "A message follows a damaged line; it is shown after the message before that line, with a mark between them.",
      );
    }
    table.dropDeadEnds(LineKind.progress, (row) =>
      this.#tell("bookkeeping", row, "Progress of a tool or hook that led to no message."),
    );
    this.#forks.settle(table);
    return { table, forks: this.#forks, count: this.#count };
  }

  #tell(kind: ImportIssueKind, row: number, message: string): void {
    this.#issues.add(kind, this.#table.lineNumber(row), message);
  }

  /**
   * Returns the message before a row whose parent was lost with an unreadable line; -1 when no line was lost before it.
   */
  #rowBeforeGap(row: number): number {
    return this.#firstLost > this.#table.lineNumber(row) ? -1 : this.#table.rowBefore(row);
  }

  #parse(bytes: Uint8Array, place: LinePlace, terminated: boolean): void {
    const { lineNumber, offset, length } = place;
    const parsed = parseLine(bytes);
    const salvaged = parsed.ok || !terminated ? undefined : salvageLine(bytes, '{"');
    const line = parsed.ok ? parsed.value : salvaged?.value;
    if (isRecord(line)) {
      const start = salvaged?.start ?? 0;
      if (salvaged)
        this.#issues.add("salvaged", lineNumber, "A line was cut off; the whole line after it was read.");
      this.#add(factsOf(line), { lineNumber, offset: offset + start, length: length - start });
    } else if (terminated || parsed.ok) {
      this.#firstLost = Math.min(this.#firstLost, lineNumber);
      this.#issues.add("bad-line", lineNumber, "A line is damaged and cannot be read.");
    } else this.#issues.add("torn-line", lineNumber, "The last line was cut off while it was written.");
  }

  #add(facts: LineFacts, place: LinePlace): void {
    const table = this.#table;
    const { id, type, parentId, forkedFrom } = facts;
    const kind = kindOfLine(type, id.length > 0);
    if (kind === LineKind.aside) {
      const reason = reasonToLeaveOut(type);
      if (reason === undefined) table.add(NO_BYTES, kind, facts, place);
      else this.#issues.add("bookkeeping", place.lineNumber, reason);
      return;
    }
    const row = table.length;
    const first = table.add(id, kind, facts, place);
    if (first >= 0 && this.#isSame(row, first)) {
      this.#tell("duplicate-line", row, "The same line appears twice; it was read once.");
      table.drop(row);
      return;
    }
    if (first >= 0 || id.length === 0) table.mark(row, LineMark.renamed);
    if (first >= 0)
      this.#tell("duplicate-id", row, "Two messages have the same id; the second one got another.");
    else if (id.length === 0) this.#tell("no-id", row, "A message has no id; it got one.");
    if (parentId !== undefined) table.follow(row, parentId);
    if (forkedFrom !== undefined) this.#forks.claim(row, forkedFrom, table);
  }

  #isSame(row: number, first: number): boolean {
    const table = this.#table;
    const length = table.lineLength(row);
    if (table.lineLength(first) !== length) return false;
    const above = this.#view.read(table.offset(first), length);
    const here = this.#view.read(table.offset(row), length);
    return above.every((byte, at) => byte === here[at]);
  }
}

const NO_BYTES = new Uint8Array();

function isBlank(block: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = block[at];
    if (byte !== 32 && byte !== 9 && byte !== 13) return false;
  }
  return true;
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
  readonly #hash: ScratchArea["hash"];
  /** Rows by the hash of the original's id. */
  readonly #claims: HashRows;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#claims = new HashRows(area);
  }

  /**
   * Adds the claim of a line. An id that several lines claim is the point of the fork, and not the original of any of
   * them.
   */
  claim(row: number, forkedFrom: unknown, table: LineTable): void {
    if (!isRecord(forkedFrom)) return;
    const { sessionId, messageUuid } = forkedFrom;
    if (typeof sessionId === "string") this.sessionId ??= sessionId;
    if (typeof messageUuid !== "string" || messageUuid === "") return;
    this.#hash.hashText(messageUuid);
    const first = this.#claims.find(this.#hash);
    if (first >= 0) table.unmark(first, LineMark.claimed);
    else {
      this.#claims.set(this.#hash, row);
      table.mark(row, LineMark.claimed);
    }
  }

  /** Drops claims to the ids of other lines of the file. */
  settle(table: LineTable): void {
    this.#claims.forEach((hash, row) => {
      if (!table.has(row, LineMark.claimed)) return;
      const own = table.rowOfHash(hash);
      if (table.has(row, LineMark.renamed) || (own >= 0 && own !== row)) table.unmark(row, LineMark.claimed);
      else this.lastRow = Math.max(this.lastRow, row);
    });
  }
}

/** Returns the id of a line's original, as the line names it. */
export function originalId(line: Record<string, unknown> | undefined): unknown {
  const forkedFrom = line?.["forkedFrom"];
  return isRecord(forkedFrom) ? forkedFrom["messageUuid"] : undefined;
}
