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

/** An answer that calls several tools, with what was written while they ran. */
interface Batch {
  /** The last row of it. */
  tail: number;
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
  /** By the number of the answer. */
  readonly #batches = new Map<number, Batch>();
  /** The number of the answer in whose batch a row is; -1 for all others. */
  readonly #batchOf: Int32Array;
  /** Boundaries that were taken in before their summary was written: those two stay two entries. */
  readonly #alone = new Set<number>();

  constructor(table: LineTable, boundaries: Boundaries, parts: AnswerParts) {
    this.#table = table;
    this.#boundaries = boundaries;
    this.#parts = parts;
    this.#batchOf = new Int32Array(table.length).fill(-1);
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
    const answer = this.#batchOf[above]! >= 0 ? this.#batchOf[above]! : this.#table.message(above);
    const batch = answer < 0 ? undefined : this.#batches.get(answer);
    if (!batch) return place;
    const joins = isResult || isBeside(this.#table.kind(row)) || this.#table.message(row) === answer;
    const settled = joins || this.#batchOf[above]! >= 0 ? { ...place, row: batch.tail } : place;
    if (joins) {
      this.#batchOf[row] = answer;
      batch.tail = row;
    }
    return settled;
  }

  /** Tells of an answer that was written with so many calls. */
  answered(row: number, calls: number): void {
    const answer = this.#table.message(row);
    const known = answer < 0 ? undefined : this.#batches.get(answer);
    if (known) known.tail = row;
    else if (answer >= 0 && (calls > 1 || this.#parts.isSplit(row))) this.#batches.set(answer, { tail: row });
  }
}

/** Lines that are neither said nor answered, and never continue a conversation by themselves. */
function isBeside(kind: number): boolean {
  return kind !== LineKind.user && kind !== LineKind.assistant;
}
