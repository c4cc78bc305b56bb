import { parseLine } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";
import type { LineReader } from "../import/draft.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import type { AnswerParts } from "./answer-parts.ts";
import { hasPlace, LineKind, LineMark } from "./line-facts.ts";
import { type LineTable, PHANTOM } from "./line-table.ts";

/** Where a row hangs. */
export interface Place {
  /** The row above; -1 for a root. */
  row: number;
  /** Kept lines that stand in the context there and that this row does not follow. */
  unfollowed: readonly number[];
}

const ROOT_PLACE: Place = { row: -1, unfollowed: [] };
const NO_ROWS: readonly number[] = [];

/**
 * Where rows hang in our tree. Mostly where the file says; otherwise
 *
 * - lines of one answer are one entry;
 * - a boundary and its summary are one entry, and what follows the summary stands behind what was written between them;
 * - what was written after a compaction and follows a line that it keeps follows the compaction;
 * - results of one answer, which the file hangs side by side under their calls, follow one another, so that all of them
 *   are on the path of what comes next.
 */
export class Placement {
  readonly #table: LineTable;
  readonly #boundaries: Boundaries;
  readonly #parts: AnswerParts;
  /** For an answer that calls several tools, the last row of what was written while they ran; -1 for all others. */
  readonly #tail: ScratchColumn<Int32Array>;
  /** The answer in whose batch a row is; -1 for all others. */
  readonly #batchOf: ScratchColumn<Int32Array>;
  /** Boundaries that were taken in before their summary was written: those two stay two entries. */
  readonly #alone = new Set<number>();

  constructor(table: LineTable, boundaries: Boundaries, parts: AnswerParts, area: ScratchArea) {
    this.#table = table;
    this.#boundaries = boundaries;
    this.#parts = parts;
    this.#tail = area.integers(-1);
    this.#batchOf = area.integers(-1);
  }

  /** From now on the summary of this boundary is an entry of its own. */
  standAlone(boundary: number): void {
    this.#alone.add(boundary);
  }

  /** The row that stands for a row's entry. */
  entryRow(row: number): number {
    const boundary = this.#boundaries.ofSummary(row);
    if (boundary && !this.#alone.has(boundary.row)) return boundary.row;
    return this.#parts.headOf(row);
  }

  /** The row that children of a row hang under. */
  lastRow(row: number): number {
    const boundary = this.#boundaries.ofSummary(row);
    if (!boundary || this.#alone.has(boundary.row)) return this.entryRow(row);
    return this.entryRow(boundary.tail);
  }

  /** Where an entry row hangs by what is known before it is read. */
  placeOf(row: number): Place {
    const stated = this.#table.parent(row);
    if (stated < 0) return ROOT_PLACE;
    const keeping = this.#boundaries.keeping(stated, row);
    if (!keeping) return { row: this.lastRow(stated), unfollowed: NO_ROWS };
    const own = this.entryRow(stated);
    const later = keeping.kept.slice(keeping.kept.indexOf(stated) + 1).map((kept) => this.entryRow(kept));
    return {
      row: this.lastRow(keeping.summary),
      unfollowed: [...new Set(later)].filter((kept) => kept !== own),
    };
  }

  /** The same, when the row is read and what stands above it is written. */
  settle(row: number, place: Place, isResult: boolean): Place {
    const above = place.row;
    if (above < 0) return place;
    const batch = this.#batchOf.get(above);
    const answer = batch >= 0 ? batch : this.#table.message(above);
    const tail = answer < 0 ? -1 : this.#tail.get(answer);
    if (tail < 0) return place;
    const joins = isResult || isBeside(this.#table.kind(row)) || this.#table.message(row) === answer;
    const settled = joins || batch >= 0 ? { ...place, row: tail } : place;
    if (joins) {
      this.#batchOf.set(row, answer);
      this.#tail.set(answer, row);
    }
    return settled;
  }

  /** Tells of an answer that was written with so many calls. */
  answered(row: number, calls: number): void {
    const answer = this.#table.message(row);
    if (answer < 0) return;
    if (this.#tail.get(answer) >= 0 || calls > 1 || this.#parts.isSplit(row)) this.#tail.set(answer, row);
  }
}

/** Lines that are neither said nor answered, and never continue a conversation by themselves. */
function isBeside(kind: number): boolean {
  return kind !== LineKind.user && kind !== LineKind.assistant;
}

/** How far a summary may stand below its boundary: attachments are written between the two. */
const REACH = 64;

/** A compaction as the file has it: a line that marks the place, a line with the summary, lines that stay. */
export interface Boundary {
  row: number;
  /** The line with the summary; -1 when it is not in the file. */
  summary: number;
  /** The last line between boundary and summary; the boundary itself when there is none. */
  tail: number;
  /** Lines that the model still reads, in order. */
  kept: number[];
}

/** The compactions of a file. Finding them puts each under the leaf it was made at. */
export class Boundaries {
  readonly #byRow = new Map<number, Boundary>();
  readonly #bySummary = new Map<number, Boundary>();
  readonly #byKept = new Map<number, Boundary[]>();

  constructor(table: LineTable, lines: LineReader, issues: ImportIssues) {
    for (let row = 0; row < table.length; row++) {
      if (!table.has(row, LineMark.boundary)) continue;
      const parsed = parseLine(lines.read(table.offset(row), table.lineLength(row)));
      if (parsed.ok && isRecord(parsed.value)) this.#add(row, parsed.value, table, issues);
    }
    for (let row = 0; row < table.length; row++)
      if (table.has(row, LineMark.summary)) this.#claim(row, table);
    for (const boundary of this.#byRow.values()) if (boundary.summary >= 0) this.#relink(boundary, table);
  }

  all(): Iterable<Boundary> {
    return this.#byRow.values();
  }

  /** The compaction that a row marks the place of. */
  at(row: number): Boundary | undefined {
    return this.#byRow.get(row);
  }

  /** The compaction that a row is the summary of. */
  ofSummary(row: number): Boundary | undefined {
    return this.#bySummary.get(row);
  }

  /** The newest compaction above `row` that keeps the row `kept`. */
  keeping(kept: number, row: number): Boundary | undefined {
    return this.#byKept.get(kept)?.findLast((boundary) => boundary.summary < row);
  }

  #add(row: number, line: Record<string, unknown>, table: LineTable, issues: ImportIssues): void {
    const metadata = metadataOf(line);
    const before = line["logicalParentUuid"];
    if (typeof before === "string") {
      const parent = table.rowOf(before);
      table.setParent(row, parent < 0 ? PHANTOM : parent);
      if (parent < 0) {
        const message = "A compaction names a line before it that is not in the file; it stands as a root.";
        issues.add("phantom-parent", table.lineNumber(row), message);
      }
    }
    const boundary: Boundary = { row, summary: -1, tail: row, kept: keptRows(metadata, table) };
    this.#byRow.set(row, boundary);
    const anchor = anchorOf(metadata);
    const summary = anchor === undefined ? -1 : table.rowOf(anchor);
    if (summary >= 0 && table.has(summary, LineMark.summary) && !this.#bySummary.has(summary))
      this.#join(boundary, summary, table);
  }

  /** A summary belongs to the boundary above it. */
  #claim(row: number, table: LineTable): void {
    if (this.#bySummary.has(row)) return;
    let at = table.parent(row);
    for (let step = 0; step < REACH && at >= 0; step++) {
      const boundary = this.#byRow.get(at);
      if (boundary) {
        if (boundary.summary < 0) this.#join(boundary, row, table);
        return;
      }
      at = table.parent(at);
    }
  }

  #join(boundary: Boundary, summary: number, table: LineTable): void {
    boundary.summary = summary;
    this.#bySummary.set(summary, boundary);
    const above = table.parent(summary);
    for (let step = 0, at = above; step < REACH && at >= 0; step++, at = table.parent(at))
      if (at === boundary.row) boundary.tail = above;
  }

  /** Kept lines follow the summary, one after the other; what else follows the summary follows the last of them. */
  #relink({ summary, kept }: Boundary, table: LineTable): void {
    for (const [at, row] of kept.entries()) {
      if (at < kept.length - 1) table.mark(row, LineMark.followed);
      const boundaries = this.#byKept.get(row) ?? [];
      boundaries.push(this.#bySummary.get(summary)!);
      this.#byKept.set(row, boundaries);
    }
    if (kept.length > 0) table.mark(summary, LineMark.followed);
  }
}

/** What a boundary says of its compaction, as it is. */
export function metadataOf(line: Record<string, unknown>): Record<string, unknown> {
  return isRecord(line["compactMetadata"]) ? line["compactMetadata"] : {};
}

function anchorOf(metadata: Record<string, unknown>): string | undefined {
  for (const place of [metadata["preservedMessages"], metadata["preservedSegment"]])
    if (isRecord(place) && typeof place["anchorUuid"] === "string") return place["anchorUuid"];
  return undefined;
}

/** Ids that are not on disk are passed over. Older files name the first and the last line only. */
function keptRows(metadata: Record<string, unknown>, table: LineTable): number[] {
  const { preservedMessages, preservedSegment } = metadata;
  if (isRecord(preservedMessages) && Array.isArray(preservedMessages["uuids"])) {
    const rows = preservedMessages["uuids"].map((id) => (typeof id === "string" ? table.rowOf(id) : -1));
    // An older summary among them says nothing behind a newer one.
    return rows.filter((row) => row >= 0 && !table.has(row, LineMark.summary));
  }
  if (!isRecord(preservedSegment)) return [];
  const { headUuid, tailUuid } = preservedSegment;
  if (typeof headUuid !== "string" || typeof tailUuid !== "string") return [];
  const head = table.rowOf(headUuid);
  const rows: number[] = [];
  for (let at = table.rowOf(tailUuid); at >= 0 && rows.length <= table.length; at = table.parent(at)) {
    rows.push(at);
    if (at === head) return rows.reverse();
  }
  return [];
}

/** A row of the conversation itself. */
export const MAIN = -1;

/**
 * Which rows are of which sub-agent. Old versions wrote the runs of sub-agents between the lines of the conversation; a
 * file that holds nothing else is one run, and its own conversation.
 */
export class Sidechains {
  readonly #table: LineTable;
  /** For each row the row its run begins with, or {@link MAIN}. */
  readonly #runs: ScratchColumn<Int32Array>;
  /** How many rows each run has, in the order in which they are met. */
  readonly #sizes = new Map<number, number>();

  constructor(table: LineTable, area: ScratchArea) {
    this.#table = table;
    this.#runs = area.integers(MAIN);
    if (!this.#hasMain()) return;
    for (let row = 0; row < table.length; row++) {
      if (!this.#isSide(row)) continue;
      if (this.runOf(row) === MAIN) this.#claim(row);
      const run = this.runOf(row);
      this.#sizes.set(run, (this.#sizes.get(run) ?? 0) + 1);
    }
  }

  /** The row that a row's run begins with, or {@link MAIN}. */
  runOf(row: number): number {
    return this.#runs.get(row);
  }

  /** The rows that runs begin with. */
  all(): Iterable<number> {
    return this.#sizes.keys();
  }

  /** How many rows are of this run. */
  sizeOf(run: number): number {
    return this.#sizes.get(run) ?? 0;
  }

  #hasMain(): boolean {
    for (let row = 0; row < this.#table.length; row++)
      if (hasPlace(this.#table.kind(row)) && !this.#table.has(row, LineMark.sidechain)) return true;
    return false;
  }

  /** Walks up to where the run begins, or to a row whose run is known, and says so to all on the way. */
  #claim(row: number): void {
    const walked: number[] = [];
    for (let at = row; this.#isSide(at) && this.runOf(at) === MAIN; ) {
      walked.push(at);
      // Claimed while the walk is under way, so that a circle ends it.
      this.#runs.set(at, row);
      const parent = this.#table.parent(at);
      if (parent < 0 || !this.#isSide(parent)) break;
      at = parent;
    }
    const first = walked.at(-1)!;
    const above = this.#table.parent(first);
    const isKnown = above >= 0 && this.#isSide(above) && this.runOf(above) !== row;
    const run = isKnown ? this.runOf(above) : first;
    for (const member of walked) this.#runs.set(member, run);
  }

  #isSide(row: number): boolean {
    return hasPlace(this.#table.kind(row)) && this.#table.has(row, LineMark.sidechain);
  }
}
