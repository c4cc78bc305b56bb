import type { Entry } from "@espalier/session-tree";
import type { DraftOptions } from "../import-draft.ts";
import { idFromText } from "../import-ids.ts";
import type { ImportIssues } from "../import-issue.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchColumn } from "../scratch/scratch-column.ts";
import { AnswerParts } from "./answer-parts.ts";
import { AsideLines } from "./aside-lines.ts";
import { type Boundary, metadataOf } from "./boundaries.ts";
import type { ClaudeCodeFile } from "./claude-code-file.ts";
import type { Line } from "./hearing.ts";
import { keptLines, rowsOnPath } from "./kept-lines.ts";
import { leafRow } from "./leaf-row.ts";
import { LineBodies, speaks } from "./line-bodies.ts";
import { hasPlace, LineKind, LineMark } from "./line-kind.ts";
import type { LineTable } from "./line-table.ts";
import { type Place, Placement } from "./placement.ts";
import { lineIds, type Shoot, Trunk } from "./trunk.ts";
import { holdsResult } from "./user-bodies.ts";

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
