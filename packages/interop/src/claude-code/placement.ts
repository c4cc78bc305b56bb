import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchColumn } from "../scratch/scratch-column.ts";
import type { AnswerParts } from "./answer-parts.ts";
import type { Boundaries } from "./boundaries.ts";
import { LineKind } from "./line-kind.ts";
import type { LineTable } from "./line-table.ts";

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
