import type { Entry } from "@espalier/session-tree";
import type { DraftOptions } from "../import/draft.ts";
import { type EntryBody, entryOf, idFromText, readTime, type SourceTime } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import { AnswerParts } from "./answer-parts.ts";
import { LineBodies, speaks } from "./bodies.ts";
import type { ClaudeCodeFile } from "./file.ts";
import { hasPlace, type Line, LineKind, LineMark } from "./line-facts.ts";
import type { LineTable } from "./line-table.ts";
import { type Boundary, metadataOf, type Place, Placement } from "./places.ts";
import { AsideLines, holdsResult } from "./user-bodies.ts";

/** How far a line of the conversation is followed through lines of sub-agents. */
const REACH = 10_000;
const ROOT: Place = { row: -1, unfollowed: [] };

/** One pass over the rows of one session: each becomes its entries, what it follows first. */
export class Conversation {
  readonly #file: ClaudeCodeFile;
  readonly #table: LineTable;
  readonly #run: number;
  readonly #issues: ImportIssues;
  readonly #parts: AnswerParts;
  readonly #placement: Placement;
  readonly #trunk: Trunk;
  readonly #bodies: LineBodies;
  readonly #asides: AsideLines;
  /** 1 for rows that wait, or waited, for what they follow. */
  readonly #waiting: ScratchColumn<Int32Array>;
  readonly #area: ScratchArea;
  /** Where the source stands, when all entries have been read. */
  leafId: string | null = null;

  /** @param run the row that the session's run begins with, see `sidechains` */
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
    this.#trunk = new Trunk(area, file.facts.time, (row) => file.idOf(row));
    this.#bodies = new LineBodies(file, area, issues, (row) => this.#linesOf(row));
    this.#asides = new AsideLines(table, issues);
    this.#waiting = area.integers();
    for (const { row, summary } of file.boundaries.all()) {
      if (summary < 0) issues.add("no-summary", table.lineNumber(row), NO_SUMMARY);
      else if (known?.(file.idOf(row)) !== undefined || !file.lineAt(summary))
        this.#placement.standAlone(row);
    }
  }

  /** @param prelude what the session begins with, before its first line */
  *entries(prelude: readonly Shoot[]): Generator<Entry, void> {
    try {
      for (const shoot of prelude) yield this.#trunk.behind(shoot);
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
    if (row < 0) return this.#trunk.under(-1);
    const compacted = this.#file.boundaries.keeping(row, this.#table.length);
    return this.#trunk.under(this.#placement.lastRow(compacted ? compacted.summary : row));
  }

  #isPlaced(row: number): boolean {
    return hasPlace(this.#table.kind(row)) && this.#file.runs.runOf(row) === this.#run;
  }

  /** The entries of a row, and before them those of the rows above it that have not been written. */
  *#writeWithAncestors(first: number): Generator<Entry, void> {
    if (this.#trunk.has(first)) return;
    const open = [first];
    for (let row = open.at(-1); row !== undefined; row = open.at(-1)) {
      let place = this.#placeOf(row);
      if (place.row >= 0 && !this.#trunk.has(place.row)) {
        if (this.#waiting.get(place.row) === 0 && place.row !== row) {
          this.#waiting.set(row, 1);
          open.push(place.row);
          continue;
        }
        this.#issues.add("cycle", this.#table.lineNumber(row), CYCLE);
        place = ROOT;
      }
      open.pop();
      for (const entry of this.#write(row, place)) yield entry;
    }
  }

  /** Where a row hangs; lines of other sessions in between are passed over. */
  #placeOf(row: number): Place {
    const place = this.#placement.placeOf(row);
    let above = place.row;
    for (let step = 0; above >= 0 && !this.#isPlaced(above) && step < REACH; step++)
      above = this.#table.parent(above);
    if (above === place.row) return place;
    return above >= 0 && this.#isPlaced(above) ? { ...place, row: this.#placement.lastRow(above) } : ROOT;
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
    this.#trunk.at(line?.["timestamp"]);
    const place = this.#placement.settle(row, from, line !== undefined && holdsResult(line));
    const bodies = this.#bodies.bodies(row, lines, this.#trunk.time.ms);
    this.#bodies.tellContentIssues();
    const ids = lineIds(id, bodies.length);
    const shoots = this.#leaveOut(rowsOnPath(place.unfollowed, place.row, this.#trunk), id);
    if (this.#table.has(row, LineMark.bridged)) shoots.unshift(gapMark(id));
    for (const [at, body] of bodies.entries()) shoots.push({ id: ids[at]!, body });
    const said = { own: id, count: bodies.length, speaks: speaks(bodies) };
    const entries = this.#trunk.grow(row, place.row, shoots, said);
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

  /** A compaction has the id of its summary; edits behind it leave out what it does not keep. */
  #compact(row: number, summaryRow: number, boundary: Boundary | undefined, place: Place): Entry[] {
    const summary = this.#file.lineAt(summaryRow) as Line;
    const id = this.#file.idOf(summaryRow, summary);
    this.#trunk.at(summary["timestamp"]);
    const kept = keptLines(boundary, place.row, this.#trunk, this.#placement);
    if (kept.elsewhere > 0)
      this.#issues.add("kept-elsewhere", this.#table.lineNumber(summaryRow), KEPT_ELSEWHERE, id);
    const firstKept = kept.first < 0 ? id : this.#idsOf(kept.first)[0]!;
    const marked = boundary && this.#file.lineAt(boundary.row);
    const body = this.#bodies.compaction(summary, marked ? metadataOf(marked) : {}, firstKept);
    const shoots = [{ id, body }, ...this.#leaveOut(kept.leftOut, id)];
    // Behind a newer compaction an older one says nothing by itself: nobody has to leave it out.
    return this.#trunk.grow(row, place.row, shoots, {
      own: row === summaryRow ? id : undefined,
      count: 1,
      speaks: false,
    });
  }

  /** Edits that leave rows out of the context from here on. */
  #leaveOut(rows: readonly number[], id: string): Shoot[] {
    if (rows.length === 0) return [];
    return rows
      .filter((row) => this.#trunk.speaks(row))
      .flatMap((row) => this.#idsOf(row))
      .map((targetId) => ({
        id: idFromText(`${id}/without/${targetId}`),
        body: { type: "context_edit", targetId, replacement: null },
      }));
  }

  #idsOf(row: number): string[] {
    return this.#trunk.ids(row, this.#file.idOf(row));
  }

  #aside(row: number): Entry {
    const line = this.#file.lineAt(row);
    const id = this.#file.idOf(row, {});
    const lineNumber = this.#table.lineNumber(row);
    const body = line ? this.#asides.body(line, lineNumber) : this.#bodies.bodies(row, [], 0)[0]!;
    this.#trunk.at(line?.["timestamp"]);
    return this.#trunk.behind({ id, body });
  }
}

const NO_SUMMARY = "A compaction has no summary in the file: nothing was compacted there.";

/** A mark where lines were lost: what follows it stood next in the file, and did not follow what is above it. */
function gapMark(id: string): Shoot {
  return { id: idFromText(`${id}/gap`), body: { type: "custom", customType: "claude-code.gap", data: {} } };
}

const CYCLE = "Lines follow one another in a circle; this one stands as a root.";
const KEPT_ELSEWHERE = "Lines that a compaction keeps are not above it; it does without them.";

/** What a compaction leaves in the context, on its path. */
interface KeptLines {
  /** The row of the first entry that stays; -1 when nothing does. */
  first: number;
  /** Rows behind the first one that say something and do not stay. */
  leftOut: number[];
  /** How many of the lines to be kept are not on the path. */
  elsewhere: number;
}

/**
 * Finds the lines that a compaction keeps on the path that ends in `above`. A compaction here keeps everything from one
 * entry on; there it names each line. What lies between and is not named has to be left out one by one.
 */
function keptLines(
  boundary: Boundary | undefined,
  above: number,
  trunk: Trunk,
  placement: Placement,
): KeptLines {
  const kept = new Set(boundary?.kept.map((row) => placement.entryRow(row)));
  const lowest = lowestOf(kept);
  const path: number[] = [];
  let missing = kept.size;
  for (let row = above; missing > 0 && row >= lowest; row = trunk.parent(row)) {
    path.push(row);
    if (kept.has(row)) missing--;
  }
  const firstAt = path.findLastIndex((row) => kept.has(row));
  const leftOut = path.slice(0, Math.max(0, firstAt)).filter((row) => !kept.has(row) && trunk.speaks(row));
  return { first: path[firstAt] ?? -1, leftOut: leftOut.reverse(), elsewhere: missing };
}

/** Those of some rows that are on the path that ends in `above`. */
function rowsOnPath(rows: readonly number[], above: number, trunk: Trunk): number[] {
  if (rows.length === 0) return [];
  const lowest = lowestOf(rows);
  const path = new Set<number>();
  for (let row = above; row >= lowest; row = trunk.parent(row)) path.add(row);
  return rows.filter((row) => path.has(row));
}

/** A loop: a call has no room for a hundred thousand arguments. */
function lowestOf(rows: Iterable<number>): number {
  let lowest = Number.POSITIVE_INFINITY;
  for (const row of rows) lowest = Math.min(lowest, row);
  return lowest;
}

/** The row that is the leaf, by the file: the last line with nothing below it. -1 when there is none. */
function leafRow(table: LineTable, isOfSession: (row: number) => boolean): number {
  let last = NONE;
  for (let row = table.length - 1; row >= 0; row--) {
    if (!isOfSession(row)) continue;
    if (last === NONE) last = row;
    if (!table.has(row, LineMark.followed) && !table.has(row, LineMark.synthetic)) return row;
  }
  return last;
}

const NONE = -1;

/** An entry without its place. */
export interface Shoot {
  id: string;
  body: EntryBody;
}

/** How many of the newest ids are remembered: a power of two. What follows a row mostly comes soon. */
const REMEMBERED = 1 << 10;

/** What has been written of a session: what became of each row, and where the next one hangs. */
class Trunk {
  /** The time of the line that is being written. */
  time: SourceTime;
  readonly #idOf: (row: number) => string;
  /** The ids under which what follows a row is written, of late: by the row's last digits, with the row. */
  readonly #lastIds: string[] = [];
  readonly #lastIdRows: number[] = [];
  /** The same, where it is not the row's own: compactions. */
  readonly #otherIds = new Map<number, string>();
  readonly #parent: ScratchColumn<Int32Array>;
  /** How many entries a row became; negative when they say nothing to a model. */
  readonly #count: ScratchColumn<Int32Array>;
  /** The row that was written last; -1 before the first. */
  #lastRow = -1;
  /** State that was written behind that row: what follows the row next hangs under it, not beside it. */
  #behind: string | undefined;

  /** @param idOf the id of a row's own entry */
  constructor(area: ScratchArea, time: SourceTime, idOf: (row: number) => string) {
    this.time = time;
    this.#idOf = idOf;
    this.#parent = area.integers(-1);
    this.#count = area.integers();
  }

  has(row: number): boolean {
    return this.#count.get(row) !== 0;
  }

  /** The row above one that was written; -1 for a root. */
  parent(row: number): number {
    return this.#parent.get(row);
  }

  speaks(row: number): boolean {
    return this.#count.get(row) > 0;
  }

  /** The ids of what a row says, given its own id. */
  ids(row: number, id: string): string[] {
    return lineIds(id, Math.abs(this.#count.get(row)));
  }

  /** The id under which what follows a row hangs; null for a root. */
  under(row: number): string | null {
    if (row === this.#lastRow && this.#behind !== undefined) return this.#behind;
    if (row < 0 || !this.has(row)) return null;
    const place = row % REMEMBERED;
    if (this.#lastIdRows[place] === row) return this.#lastIds[place]!;
    return this.#otherIds.get(row) ?? this.#idOf(row);
  }

  /** Reads the time of a line; a line without one has that of the line before. */
  at(time: unknown): void {
    this.time = readTime(time, this.time);
  }

  /**
   * The entries of a row, one under the other, below the row `above`.
   *
   * @param said.own the id that the row has by itself, where its last entry has that
   */
  grow(
    row: number,
    above: number,
    shoots: readonly Shoot[],
    said: { own: string | undefined; count: number; speaks: boolean },
  ): Entry[] {
    let parentId = this.under(above);
    const entries: Entry[] = [];
    for (const { id, body } of shoots) {
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

  /** State behind the row that was written last. */
  behind({ id, body }: Shoot): Entry {
    const entry = entryOf(body, id, this.under(this.#lastRow), this.time.iso);
    if (body.type !== "session_info") this.#behind = id;
    return entry;
  }
}

/** The ids of so many entries out of one line: the last one, which others follow, has the line's own. */
function lineIds(id: string, count: number): string[] {
  if (count === 1) return [id];
  return Array.from({ length: count }, (_, at) => (at === count - 1 ? id : idFromText(`${id}/${at}`)));
}
