import type { Entry } from "@espalier/session-tree";
import type { DraftOptions } from "../import/draft.ts";
import { type EntryBody, entryOf, idFromText, readTime, type SourceTime } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import { holdsResult, LineBodies, speaks } from "./bodies.ts";
import type { ClaudeCodeFile } from "./file.ts";
import { hasPlace, type Line, LineKind, LineMark } from "./line-facts.ts";
import type { LineTable } from "./line-table.ts";
import { AnswerParts, type Boundary, metadataOf, type Place, Placement, ROOT_PLACE } from "./places.ts";

/** Maximum number of steps from a line of the conversation up through lines of sub-agents. */
const REACH = 10_000;

/** One pass over the rows of one session. Each row is converted to its entries, after the rows that it follows. */
export class Conversation {
  readonly #file: ClaudeCodeFile;
  readonly #table: LineTable;
  readonly #run: number;
  readonly #issues: ImportIssues;
  readonly #parts: AnswerParts;
  readonly #placement: Placement;
  readonly #written: WrittenRows;
  readonly #bodies: LineBodies;
  /** 1 for rows whose parent is written first, now or earlier. */
  readonly #waiting: ScratchColumn<Int32Array>;
  readonly #area: ScratchArea;
  /** Leaf of the source; set when all entries have been read. */
  leafId: string | null = null;

  /** @param run first row of the session's run, see `sidechains` */
  constructor(file: ClaudeCodeFile, run: number, issues: ImportIssues, { known }: DraftOptions) {
    const { table } = file.lines;
    const area = file.newArea();
    this.#area = area;
    this.#file = file;
    this.#table = table;
    this.#run = run;
    this.#issues = issues;
    this.#parts = new AnswerParts(table, area, (row) => file.idOf(row), known);
    this.#placement = new Placement(table, file.boundaries, this.#parts, area);
    this.#written = new WrittenRows(area, file.facts.time, (row) => file.idOf(row));
    this.#bodies = new LineBodies(file, area, issues, (row) => this.#linesOf(row));
    this.#waiting = area.column(Int32Array);
    for (const { row, summary } of file.boundaries.all()) {
      if (summary < 0) issues.add("no-summary", table.lineNumber.get(row), NO_SUMMARY);
      else if (known?.(file.idOf(row)) !== undefined || !file.lineAt(summary))
        this.#placement.standAlone(row);
    }
  }

  /** @param prelude entries before those of the first line */
  *entries(prelude: readonly UnplacedEntry[]): Generator<Entry, void> {
    try {
      for (const entry of prelude) yield this.#written.behind(entry);
      for (let row = 0; row < this.#table.length; row++) {
        if (this.#isPlaced(row)) yield* this.#writeWithAncestors(this.#placement.entryRow(row));
        else if (this.#run === this.#file.runs.runOf(row) && this.#table.kind(row) === LineKind.aside)
          yield this.#aside(row);
      }
      this.leafId = this.#leaf();
    } finally {
      this.#area.close();
    }
  }

  #leaf(): string | null {
    const row = leafRow(this.#table, (candidate) => this.#isPlaced(candidate));
    if (row < 0) return this.#written.under(-1);
    const compacted = this.#file.boundaries.keeping(row, this.#table.length);
    return this.#written.under(this.#placement.lastRow(compacted ? compacted.summary : row));
  }

  #isPlaced(row: number): boolean {
    return hasPlace(this.#table.kind(row)) && this.#file.runs.runOf(row) === this.#run;
  }

  /** Yields the entries of a row, after those of rows above it that are not written yet. */
  *#writeWithAncestors(first: number): Generator<Entry, void> {
    if (this.#written.has(first)) return;
    const open = [first];
    for (let row = open.at(-1); row !== undefined; row = open.at(-1)) {
      let place = this.#placeOf(row);
      if (place.row >= 0 && !this.#written.has(place.row)) {
        if (this.#waiting.get(place.row) === 0 && place.row !== row) {
          this.#waiting.set(row, 1);
          open.push(place.row);
          continue;
        }
        this.#issues.add("cycle", this.#table.lineNumber.get(row), CYCLE);
        place = ROOT_PLACE;
      }
      open.pop();
      for (const entry of this.#write(row, place)) yield entry;
    }
  }

  /** Returns the position of a row; lines of other sessions in between are skipped. */
  #placeOf(row: number): Place {
    const place = this.#placement.placeOf(row);
    let above = place.row;
    for (let step = 0; above >= 0 && !this.#isPlaced(above) && step < REACH; step++)
      above = this.#table.parent.get(above);
    if (above === place.row) return place;
    return above >= 0 && this.#isPlaced(above)
      ? { ...place, row: this.#placement.lastRow(above) }
      : ROOT_PLACE;
  }

  #write(row: number, from: Place): Entry[] {
    const boundary = this.#file.boundaries.at(row);
    if (boundary && boundary.summary >= 0 && this.#placement.entryRow(boundary.summary) === row) {
      return this.#compact(row, boundary.summary, boundary, from);
    }
    if (this.#table.has(row, LineMark.summary) && this.#file.lineAt(row)) {
      return this.#compact(row, row, this.#file.boundaries.ofSummary(row), from);
    }
    const lines = this.#linesOf(row);
    const [line] = lines;
    const id = this.#file.idOf(row, line);
    this.#written.at(line?.["timestamp"]);
    const place = this.#placement.settle(row, from, line !== undefined && holdsResult(line));
    const bodies = this.#bodies.bodies(row, lines, this.#written.time.ms);
    this.#bodies.tellContentIssues();
    const ids = lineIds(id, bodies.length);
    const onPath = new Set(pathDownTo(place.unfollowed, place.row, this.#written));
    const unplaced = this.#leaveOut(
      place.unfollowed.filter((unfollowed) => onPath.has(unfollowed)),
      id,
    );
    if (this.#table.has(row, LineMark.bridged)) unplaced.unshift(gapMark(id));
    for (const [at, body] of bodies.entries()) unplaced.push({ id: ids[at]!, body });
    const said = { own: id, count: bodies.length, speaks: speaks(bodies) };
    const entries = this.#written.grow(row, place.row, unplaced, said);
    let calls = 0;
    for (const entry of entries) calls += this.#bodies.notice(entry, line, row);
    if (calls > 0) this.#placement.answered(row, calls);
    return entries;
  }

  #linesOf(row: number): Line[] {
    const lines: Line[] = [];
    for (const part of this.#parts.partsOf(row)) {
      const line = this.#file.lineAt(part);
      if (line) lines.push(line);
    }
    return lines;
  }

  /**
   * Makes a compaction, with the id of its summary, and edits after it that leave out content which it does not keep.
   */
  #compact(row: number, summaryRow: number, boundary: Boundary | undefined, place: Place): Entry[] {
    const summary = this.#file.lineAt(summaryRow) as Line;
    const id = this.#file.idOf(summaryRow, summary);
    this.#written.at(summary["timestamp"]);
    const kept = keptLines(boundary, place.row, this.#written, this.#placement);
    if (kept.elsewhere > 0)
      this.#issues.add("kept-elsewhere", this.#table.lineNumber.get(summaryRow), KEPT_ELSEWHERE, id);
    const firstKept = kept.first < 0 ? id : this.#idsOf(kept.first)[0]!;
    const marked = boundary && this.#file.lineAt(boundary.row);
    const body = this.#bodies.compaction(summary, marked ? metadataOf(marked) : {}, firstKept);
    const entries = [{ id, body }, ...this.#leaveOut(kept.leftOut, id)];
    // An older compaction before a newer one is already out of the context: no edit is needed.
    return this.#written.grow(row, place.row, entries, {
      own: row === summaryRow ? id : undefined,
      count: 1,
      speaks: false,
    });
  }

  /** Returns edits that leave rows out of the context from here on. */
  #leaveOut(rows: readonly number[], id: string): UnplacedEntry[] {
    return rows
      .filter((row) => this.#written.speaks(row))
      .flatMap((row) => this.#idsOf(row))
      .map((targetId) => ({
        id: idFromText(`${id}/without/${targetId}`),
        body: { type: "context_edit", targetId, replacement: null },
      }));
  }

  #idsOf(row: number): string[] {
    return this.#written.ids(row, this.#file.idOf(row));
  }

  #aside(row: number): Entry {
    const line = this.#file.lineAt(row);
    const id = this.#file.idOf(row, {});
    const body = this.#bodies.aside(row, line);
    this.#written.at(line?.["timestamp"]);
    return this.#written.behind({ id, body });
  }
}

const NO_SUMMARY = "A compaction has no summary in the file; it is not shown as a compaction.";

/**
 * Makes a mark for lost lines: the entry after it is the next one in the file, but not a reply to the entry before it.
 */
function gapMark(id: string): UnplacedEntry {
  return { id: idFromText(`${id}/gap`), body: { type: "custom", customType: "claude-code.gap", data: {} } };
}

const CYCLE = "The file refers to itself; shown as a separate branch.";
const KEPT_ELSEWHERE = "A compaction keeps messages that are not above it; they are left out after it.";

/**
 * Finds the lines that a compaction keeps on the path that ends at `above`. A compaction in the session format keeps
 * everything from one entry on; Claude Code names each kept line. Lines in between that are not named have to be left
 * out one by one.
 *
 * Returns the row of the first kept entry (-1 for none), the later rows that are not kept, and the number of kept
 * lines outside the path.
 */
function keptLines(
  boundary: Boundary | undefined,
  above: number,
  written: WrittenRows,
  placement: Placement,
): { first: number; leftOut: number[]; elsewhere: number } {
  const kept = new Set(boundary?.kept.map((row) => placement.entryRow(row)));
  const path = pathDownTo(kept, above, written);
  const firstAt = path.findLastIndex((row) => kept.has(row));
  const after = path.slice(0, Math.max(0, firstAt));
  const leftOut = after.filter((row) => !kept.has(row)).reverse();
  return { first: path[firstAt] ?? -1, leftOut, elsewhere: kept.size - (firstAt + 1 - leftOut.length) };
}

/** Returns the path that ends at `above`, last row first, down to the lowest of the given rows. */
function pathDownTo(rows: Iterable<number>, above: number, written: WrittenRows): number[] {
  // `Math.min(...rows)` would fail: a call cannot have a hundred thousand arguments.
  let lowest = Number.POSITIVE_INFINITY;
  for (const row of rows) lowest = Math.min(lowest, row);
  const path: number[] = [];
  for (let row = above; row >= lowest; row = written.parent(row)) path.push(row);
  return path;
}

/** Returns the row of the leaf according to the file: the last line without children; -1 when there is none. */
function leafRow(table: LineTable, isOfSession: (row: number) => boolean): number {
  let last = -1;
  for (let row = table.length - 1; row >= 0; row--) {
    if (!isOfSession(row)) continue;
    if (last < 0) last = row;
    if (!table.has(row, LineMark.followed) && !table.has(row, LineMark.synthetic)) return row;
  }
  return last;
}

/** An entry whose parent and time are not set yet. */
export interface UnplacedEntry {
  id: string;
  body: EntryBody;
}

/** Number of recent ids that are kept, a power of two. Children of a row usually follow soon. */
const REMEMBERED = 1 << 10;

/** Rows of a session that have been written: their parents, their entries, and the position of the next entry. */
class WrittenRows {
  /** Time of the line that is being written. */
  time: SourceTime;
  readonly #idOf: (row: number) => string;
  /** Ids of parents for the children of recent rows, at the index of the row's last bits, with the row. */
  readonly #lastIds: string[] = [];
  readonly #lastIdRows: number[] = [];
  /** Ids of parents that differ from the row's own id: those of compactions. */
  readonly #otherIds = new Map<number, string>();
  readonly #parent: ScratchColumn<Int32Array>;
  /** Number of entries of a row; negative when no model reads any of them. */
  readonly #count: ScratchColumn<Int32Array>;
  /** Last written row; -1 before the first. */
  #lastRow = -1;
  /** Id of the state that was written after that row: the next child of the row follows it. */
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
    if (row < 0 || !this.has(row)) return null;
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
   * @param said.own the row's own id, if its last entry has another one
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

  /** Makes an entry of state after the row that was written last. */
  behind({ id, body }: UnplacedEntry): Entry {
    const entry = entryOf(body, id, this.under(this.#lastRow), this.time.iso);
    if (body.type !== "session_info") this.#behind = id;
    return entry;
  }
}

/** Returns the ids of the entries of one line: the last entry, which other entries follow, has the line's own id. */
function lineIds(id: string, count: number): string[] {
  if (count === 1) return [id];
  return Array.from({ length: count }, (_, at) => (at === count - 1 ? id : idFromText(`${id}/${at}`)));
}
