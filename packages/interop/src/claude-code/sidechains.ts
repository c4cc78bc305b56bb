import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchColumn } from "../scratch/scratch-column.ts";
import { hasPlace, LineMark } from "./line-kind.ts";
import type { LineTable } from "./line-table.ts";

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
