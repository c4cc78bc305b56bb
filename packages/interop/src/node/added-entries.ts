import { IdRows } from "../scratch/id-rows.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchColumn } from "../scratch/scratch-column.ts";

/** The entries that an import added to a session: which, and when each was written. */
export class AddedEntries {
  readonly #area: ScratchArea;
  readonly #rows: IdRows;
  /** Epoch milliseconds. */
  readonly #times: ScratchColumn<Float64Array>;

  constructor(area: ScratchArea) {
    this.#area = area;
    this.#rows = new IdRows(area);
    this.#times = area.floats();
  }

  get length(): number {
    return this.#rows.length;
  }

  has(id: string): boolean {
    return this.#find(id) >= 0;
  }

  /** Adds an entry that is not among them. */
  add(id: string, time: number): void {
    const newest = this.#find(id);
    this.#times.set(this.#rows.length, time);
    this.#rows.add(this.#area.hash, newest);
  }

  /** Undefined for an entry that is not among them. */
  timeOf(id: string): number | undefined {
    const row = this.#find(id);
    return row < 0 ? undefined : this.#times.get(row);
  }

  #find(id: string): number {
    this.#area.hash.hashText(id);
    return this.#rows.find(this.#area.hash);
  }
}
