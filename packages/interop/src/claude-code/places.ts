import { type Entry, isRecord } from "@espalier/session-tree";
import type { DraftOptions } from "../import/draft.ts";
import {
  type EntryBody,
  entryOf,
  idFromText,
  readTime,
  type SourceTime,
  uuidOfLine,
} from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import { type Line, LineKind, LineMark } from "./line-facts.ts";
import type { LineTable } from "./line-table.ts";

/** Position of a row in the tree. */
export interface Place {
  /** Row above; -1 for a root. */
  row: number;
  /** Kept lines that are in the context at this row, and that are not on the row's own branch. */
  unfollowed: readonly number[];
}

export const ROOT_PLACE: Place = { row: -1, unfollowed: [] };

/**
 * Positions of rows in the session tree. They are those of the file, except:
 *
 * - lines of one answer are one entry;
 * - a boundary and its summary are one entry, and children of the summary follow the lines written between them;
 * - a line that was written after a compaction, and has a line kept by it as its parent, follows the compaction;
 * - results of one answer, which are side by side below their calls in the file, follow one another, so that all of
 *   them are on the path of later lines.
 */
export class Placement {
  readonly #table: LineTable;
  readonly #boundaries: Boundaries;
  readonly #parts: AnswerParts;
  /** For an answer that calls several tools, the last row that was written while they ran; -1 for all others. */
  readonly #tail: ScratchColumn<Int32Array>;
  /** Row of the answer to whose calls a row belongs; -1 for all others. */
  readonly #batchOf: ScratchColumn<Int32Array>;
  /** Boundaries that were written before their summary was read: both become separate entries. */
  readonly #alone = new Set<number>();

  constructor(table: LineTable, boundaries: Boundaries, parts: AnswerParts, area: ScratchArea) {
    this.#table = table;
    this.#boundaries = boundaries;
    this.#parts = parts;
    this.#tail = area.column(Int32Array, -1);
    this.#batchOf = area.column(Int32Array, -1);
  }

  /** Makes the summary of this boundary a separate entry. */
  standAlone(boundary: number): void {
    this.#alone.add(boundary);
  }

  /** Returns the row whose entry includes a row. */
  entryRow(row: number): number {
    const boundary = this.#boundaries.ofSummary(row);
    if (boundary && !this.#alone.has(boundary.row)) return boundary.row;
    return this.#parts.headOf(row);
  }

  /** Returns the row that children of a row follow. */
  lastRow(row: number): number {
    const boundary = this.#boundaries.ofSummary(row);
    if (!boundary || this.#alone.has(boundary.row)) return this.entryRow(row);
    return this.entryRow(boundary.tail);
  }

  /** Returns the position of an entry row before its content is read. */
  placeOf(row: number): Place {
    const stated = this.#table.parent.get(row);
    const keeping = this.#boundaries.keeping(stated, row);
    if (!keeping) return { row: this.lastRow(stated), unfollowed: [] };
    const own = this.entryRow(stated);
    const later = keeping.kept.slice(keeping.kept.indexOf(stated) + 1).map((kept) => this.entryRow(kept));
    return {
      row: this.lastRow(keeping.summary),
      unfollowed: [...new Set(later)].filter((kept) => kept !== own),
    };
  }

  /** Returns the position of an entry row when it is read and its ancestors are written. */
  settle(row: number, place: Place, isResult: boolean): Place {
    const batch = this.#batchOf.get(place.row);
    const answer = batch >= 0 ? batch : this.#table.message.get(place.row);
    const tail = this.#tail.get(answer);
    if (tail < 0) return place;
    const joins = isResult || isBeside(this.#table.kind(row)) || this.#table.message.get(row) === answer;
    const settled = joins || batch >= 0 ? { ...place, row: tail } : place;
    if (joins) {
      this.#batchOf.set(row, answer);
      this.#tail.set(answer, row);
    }
    return settled;
  }

  /** Registers the calls of a written answer. */
  answered(row: number, calls: number): void {
    const answer = this.#table.message.get(row);
    if (answer < 0) return;
    if (this.#tail.get(answer) >= 0 || calls > 1 || this.#parts.isSplit(row)) this.#tail.set(answer, row);
  }
}

/** Returns whether lines of a kind are neither messages nor answers, so that they never continue a conversation. */
function isBeside(kind: number): boolean {
  return kind !== LineKind.user && kind !== LineKind.assistant;
}

/** Maximum number of steps from a summary up to its boundary; attachments are written between both. */
const REACH = 64;

/** A compaction in the file: a line that marks its position, a line with the summary, and the kept lines. */
export interface Boundary {
  row: number;
  /** Row of the summary; -1 when it is not in the file. */
  summary: number;
  /** Last line between boundary and summary; the boundary itself when there is none. */
  tail: number;
  /** Rows that the model still reads, in order. */
  kept: number[];
}

/** Compactions of a file. The constructor moves each boundary below the leaf at which the compaction was made. */
export class Boundaries {
  readonly #byRow = new Map<number, Boundary>();
  readonly #bySummary = new Map<number, Boundary>();
  readonly #byKept = new Map<number, Boundary[]>();

  constructor(table: LineTable, lineAt: (row: number) => Line | undefined, issues: ImportIssues) {
    for (let row = 0; row < table.length; row++) {
      const line = table.has(row, LineMark.boundary) ? lineAt(row) : undefined;
      if (line) this.#add(row, line, table, issues);
    }
    for (let row = 0; row < table.length; row++)
      if (table.has(row, LineMark.summary)) this.#claim(row, table);
    for (const boundary of this.#byRow.values()) if (boundary.summary >= 0) this.#keep(boundary);
  }

  all(): Iterable<Boundary> {
    return this.#byRow.values();
  }

  /** Returns the compaction whose boundary is this row. */
  at(row: number): Boundary | undefined {
    return this.#byRow.get(row);
  }

  /** Returns the compaction whose summary is this row. */
  ofSummary(row: number): Boundary | undefined {
    return this.#bySummary.get(row);
  }

  /** Returns the last compaction whose summary is before `row` in the file and that keeps the row `kept`. */
  keeping(kept: number, row: number): Boundary | undefined {
    return this.#byKept.get(kept)?.findLast((boundary) => boundary.summary < row);
  }

  #add(row: number, line: Line, table: LineTable, issues: ImportIssues): void {
    const metadata = metadataOf(line);
    const before = line["logicalParentUuid"];
    if (typeof before === "string") {
      const named = table.rowOf(before);
      // A compaction continues the conversation, so the message before it is the best guess for one that was not written.
      const parent = named < 0 ? table.rowBefore(row) : named;
      table.parent.set(row, parent);
      if (named < 0) {
        const place = parent < 0 ? "shown as a separate branch" : "it is shown after the message before it";
        const message = `A compaction follows a message that is not in the file; ${place}.`;
        issues.add(parent < 0 ? "phantom-parent" : "bridged", table.lineNumber.get(row), message);
      }
    }
    const boundary: Boundary = { row, summary: -1, tail: row, kept: keptRows(metadata, table) };
    this.#byRow.set(row, boundary);
    const anchor = anchorOf(metadata);
    const summary = anchor === undefined ? -1 : table.rowOf(anchor);
    if (summary >= 0 && table.has(summary, LineMark.summary) && !this.#bySummary.has(summary))
      this.#join(boundary, summary, table);
  }

  /** Assigns a summary to the boundary above it. */
  #claim(row: number, table: LineTable): void {
    if (this.#bySummary.has(row)) return;
    let at = table.parent.get(row);
    for (let step = 0; step < REACH && at >= 0; step++) {
      const boundary = this.#byRow.get(at);
      if (boundary) {
        if (boundary.summary < 0) this.#join(boundary, row, table);
        return;
      }
      at = table.parent.get(at);
    }
  }

  #join(boundary: Boundary, summary: number, table: LineTable): void {
    boundary.summary = summary;
    this.#bySummary.set(summary, boundary);
    const above = table.parent.get(summary);
    for (let step = 0, at = above; step < REACH && at >= 0; step++, at = table.parent.get(at))
      if (at === boundary.row) boundary.tail = above;
  }

  /** Registers the kept lines for {@link keeping}. */
  #keep(boundary: Boundary): void {
    for (const row of boundary.kept) {
      const boundaries = this.#byKept.get(row) ?? [];
      boundaries.push(boundary);
      this.#byKept.set(row, boundaries);
    }
  }
}

/** Returns the metadata of a boundary, unchanged; empty when there is none. */
export function metadataOf(line: Line): Line {
  return isRecord(line["compactMetadata"]) ? line["compactMetadata"] : {};
}

function anchorOf(metadata: Line): string | undefined {
  for (const place of [metadata["preservedMessages"], metadata["preservedSegment"]])
    if (isRecord(place) && typeof place["anchorUuid"] === "string") return place["anchorUuid"];
  return undefined;
}

/**
 * Returns the kept rows; ids that are not in the file, and older summaries, are skipped. Older files name only the first
 * and the last line: none is kept if the first is not above the last.
 */
function keptRows(metadata: Line, table: LineTable): number[] {
  const { preservedMessages, preservedSegment } = metadata;
  if (isRecord(preservedMessages) && Array.isArray(preservedMessages["uuids"])) {
    const rows = preservedMessages["uuids"].map((id) => (typeof id === "string" ? table.rowOf(id) : -1));
    // An older summary among them is not in the context after a newer one.
    return rows.filter((row) => row >= 0 && !table.has(row, LineMark.summary));
  }
  if (!isRecord(preservedSegment)) return [];
  const { headUuid, tailUuid } = preservedSegment;
  if (typeof headUuid !== "string" || typeof tailUuid !== "string") return [];
  const head = table.rowOf(headUuid);
  const rows: number[] = [];
  for (let at = table.rowOf(tailUuid); at >= 0 && rows.length <= table.length; at = table.parent.get(at)) {
    rows.push(at);
    if (at === head) return rows.reverse();
  }
  return [];
}

/** Maximum number of steps up to another line of the same answer; results and attachments can be between both. */
const ANSWER_REACH = 64;

type Known = NonNullable<DraftOptions["known"]>;

/**
 * Lines that are parts of one answer. An answer is written one line for each block of its content, and read as one
 * message. Lines belong together when they name the same answer and one is above the other.
 */
export class AnswerParts {
  readonly #table: LineTable;
  /** For each part of an answer, the answer's row; -1 for other rows. */
  readonly #head: ScratchColumn<Int32Array>;
  /** For the answer's row its last part, for each part the previous one; -1 for the first. */
  readonly #before: ScratchColumn<Int32Array>;
  readonly #split = new Set<number>();

  /** @param known returns earlier imported entries; lines that were added after them are a separate answer */
  constructor(table: LineTable, area: ScratchArea, idOf: (row: number) => string, known?: Known) {
    this.#table = table;
    this.#head = area.column(Int32Array, -1);
    this.#before = area.column(Int32Array, -1);
    for (let row = 0; row < table.length; row++) if (table.message.get(row) >= 0) this.#place(row);
    if (!known) return;
    for (let row = 0; row < table.length; row++)
      if (this.#before.get(row) >= 0 && this.headOf(row) === row) this.#separate(row, idOf, known);
  }

  /** Returns the row of the whole answer; any other row unchanged. */
  headOf(row: number): number {
    const head = this.#head.get(row);
    return head < 0 ? row : head;
  }

  /** Returns all rows of an answer, in file order. */
  partsOf(head: number): number[] {
    const parts = [head];
    for (let part = this.#before.get(head); part >= 0; part = this.#before.get(part)) parts.push(part);
    return parts.length === 1 ? parts : parts.sort((a, b) => a - b);
  }

  /** Returns whether later lines of an answer are a separate entry. */
  isSplit(head: number): boolean {
    return this.#split.has(head);
  }

  #place(row: number): void {
    const head = this.#topOf(row);
    this.#head.set(row, head);
    if (head === row) return;
    this.#join(row, head);
  }

  #join(row: number, head: number): void {
    this.#before.set(row, this.#before.get(head));
    this.#before.set(head, row);
  }

  /** Returns the topmost line of the same answer. Stops at rows that were processed before. */
  #topOf(row: number): number {
    const table = this.#table;
    const message = table.message.get(row);
    let top = row;
    let at = table.parent.get(row);
    for (let step = 0; step < ANSWER_REACH && at >= 0 && at !== row; step++) {
      if (table.message.get(at) === message) {
        const head = this.#head.get(at);
        if (head >= 0) return head;
        top = at;
      } else if (table.kind(at) === LineKind.assistant) break;
      at = table.parent.get(at);
    }
    return top;
  }

  /** Makes lines that an earlier import did not see separate answers. */
  #separate(head: number, idOf: (row: number) => string, known: Known): void {
    let first = head;
    let rest = this.partsOf(head);
    for (;;) {
      const id = idOf(first);
      let taken = known(id)?.lines ?? 0;
      if (taken < 1) return;
      // A continued session has one line for each block, whatever the original had.
      while (taken < rest.length && idOf(rest[taken]!) === uuidOfLine(id, taken)) taken++;
      if (taken >= rest.length) return;
      this.#split.add(first);
      this.#gather(first, rest.slice(0, taken));
      rest = rest.slice(taken);
      first = rest[0]!;
      this.#gather(first, rest);
    }
  }

  /** Makes these rows one answer. */
  #gather(head: number, rows: readonly number[]): void {
    this.#before.set(head, -1);
    for (const row of rows) {
      this.#head.set(row, head);
      if (row !== head) this.#join(row, head);
    }
  }
}

/** An entry whose parent and time are not set yet. */
export interface UnplacedEntry {
  id: string;
  body: EntryBody;
}

/** Number of recent ids that are kept, a power of two. Children of a row usually follow soon. */
const REMEMBERED = 1 << 10;

/** Rows of a session that have been written: their parents, their entries, and the position of the next entry. */
export class WrittenRows {
  /** Time of the line that is being written. */
  time: SourceTime;
  readonly #idOf: (row: number) => string;
  /** Ids of parents for the children of recent rows, at the index of the row's last bits, with the row. */
  readonly #lastIds: string[] = [];
  readonly #lastIdRows: number[] = [];
  /** Ids of parents that differ from the row's own id: those of compactions. */
  readonly #otherIds = new Map<number, string>();
  readonly #parent: ScratchColumn<Int32Array>;
  /** Number of a row's own entries, without added edits; negative when no model reads any of them. */
  readonly #count: ScratchColumn<Int32Array>;
  /** Last written row; -1 before the first. */
  #lastRow = -1;
  /** Id of the state that was written after the last row: the next child of that row follows the state. */
  #behind: string | undefined;

  /** @param idOf returns the id of a row's own entry */
  constructor(area: ScratchArea, time: SourceTime, idOf: (row: number) => string) {
    this.time = time;
    this.#idOf = idOf;
    this.#parent = area.column(Int32Array, -1);
    this.#count = area.column(Int32Array);
  }

  has(row: number): boolean {
    return this.#count.get(row) !== 0;
  }

  /** Returns the parent row of a written row; -1 for a root. */
  parent(row: number): number {
    return this.#parent.get(row);
  }

  speaks(row: number): boolean {
    return this.#count.get(row) > 0;
  }

  /** Returns the ids of a row's entries, from its own id. */
  ids(row: number, id: string): string[] {
    return lineIds(id, Math.abs(this.#count.get(row)));
  }

  /** Returns the id of the parent for children of a row; null for a root. */
  under(row: number): string | null {
    if (row === this.#lastRow && this.#behind !== undefined) return this.#behind;
    if (!this.has(row)) return null;
    const place = row % REMEMBERED;
    if (this.#lastIdRows[place] === row) return this.#lastIds[place]!;
    return this.#otherIds.get(row) ?? this.#idOf(row);
  }

  /** Reads the time of a line; a line without a time has that of the previous line. */
  at(time: unknown): void {
    this.time = readTime(time, this.time);
  }

  /**
   * Makes the entries of a row, each under the previous one, below the row `above`.
   *
   * @param said.own id that `idOf` returns for the row; undefined if the last entry has another id
   */
  grow(
    row: number,
    above: number,
    unplaced: readonly UnplacedEntry[],
    said: { own: string | undefined; count: number; speaks: boolean },
  ): Entry[] {
    let parentId = this.under(above);
    const entries: Entry[] = [];
    for (const { id, body } of unplaced) {
      entries.push(entryOf(body, id, parentId, this.time.iso));
      parentId = id;
    }
    const place = row % REMEMBERED;
    if (parentId !== null) {
      this.#lastIds[place] = parentId;
      this.#lastIdRows[place] = row;
      if (parentId !== said.own) this.#otherIds.set(row, parentId);
    }
    this.#parent.set(row, above);
    this.#count.set(row, said.speaks ? said.count : -said.count);
    this.#lastRow = row;
    this.#behind = undefined;
    return entries;
  }

  /** Makes an entry after the row that was written last. The next child of that row follows it, unless it is a name. */
  behind({ id, body }: UnplacedEntry): Entry {
    const entry = entryOf(body, id, this.under(this.#lastRow), this.time.iso);
    if (body.type !== "session_info") this.#behind = id;
    return entry;
  }
}

/** Returns the ids of the entries of one line: the last entry, which other entries follow, has the line's own id. */
export function lineIds(id: string, count: number): string[] {
  return Array.from({ length: count }, (_, at) => (at === count - 1 ? id : idFromText(`${id}/${at}`)));
}
