import { IdHash } from "@espalier/session-tree";
import { type Cells, ScratchColumn } from "./scratch-column.ts";
import type { ScratchSpace } from "./scratch-space.ts";

/** A part of the scratch space that is given back as one: columns, and the hash by which ids in them are compared. */
export class ScratchArea {
  readonly hash = new IdHash();
  readonly #space: ScratchSpace;
  readonly #columns = new Set<ScratchColumn<Cells>>();

  constructor(space: ScratchSpace) {
    this.#space = space;
  }

  /** A column of 32 bits a row: whole numbers, `initial` where none was set. */
  integers(initial = 0): ScratchColumn<Int32Array> {
    return this.#add(new ScratchColumn(this.#space, Int32Array, initial));
  }

  /** The same, of numbers without a sign. */
  words(): ScratchColumn<Uint32Array> {
    return this.#add(new ScratchColumn(this.#space, Uint32Array, 0));
  }

  /** A column of bytes. */
  bytes(): ScratchColumn<Uint8Array> {
    return this.#add(new ScratchColumn(this.#space, Uint8Array, 0));
  }

  /** A column of 64 bits a row: numbers beyond 2 ** 32, as offsets in files are. */
  floats(): ScratchColumn<Float64Array> {
    return this.#add(new ScratchColumn(this.#space, Float64Array, 0));
  }

  /** Gives one column back. */
  free(column: ScratchColumn<Cells>): void {
    this.#columns.delete(column);
    column.free();
  }

  /** Gives all columns back; nothing of them may be used any more. */
  close(): void {
    for (const column of this.#columns) column.free();
    this.#columns.clear();
  }

  #add<Of extends Cells>(column: ScratchColumn<Of>): ScratchColumn<Of> {
    this.#columns.add(column);
    return column;
  }
}
