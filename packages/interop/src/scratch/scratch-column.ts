import { PAGE_BYTES, type Page, type ScratchSpace } from "./scratch-space.ts";

/** What the cells of a column are kept in. */
export type Cells = Uint8Array | Int32Array | Uint32Array | Float64Array;

type CellsOf<Of extends Cells> = {
  new (buffer: ArrayBuffer): Of;
  readonly BYTES_PER_ELEMENT: number;
};

/**
 * A number for each row, as in a typed array that has no end. Rows near one another cost what a typed array costs; those
 * far apart a look at another page.
 */
export class ScratchColumn<Of extends Cells> {
  readonly #space: ScratchSpace;
  readonly #kind: CellsOf<Of>;
  readonly #initial: number;
  readonly #pages: (Page | undefined)[] = [];
  readonly #shift: number;
  readonly #mask: number;
  /** The page that is open, by number; it is pinned. */
  #at = -1;
  #page: Page | undefined;
  #cells: Of;

  constructor(space: ScratchSpace, kind: CellsOf<Of>, initial: number) {
    this.#space = space;
    this.#kind = kind;
    this.#initial = initial;
    const rows = PAGE_BYTES / kind.BYTES_PER_ELEMENT;
    this.#shift = Math.log2(rows);
    this.#mask = rows - 1;
    this.#cells = new kind(new ArrayBuffer(0));
  }

  get(row: number): number {
    const at = row >>> this.#shift;
    if (at !== this.#at) {
      const page = this.#pages[at];
      if (!page) return this.#initial;
      this.#turn(at, page);
    }
    return this.#cells[row & this.#mask]!;
  }

  set(row: number, value: number): void {
    const at = row >>> this.#shift;
    if (at !== this.#at) {
      const page = this.#pages[at];
      if (page) this.#turn(at, page);
      else this.#begin(at);
    }
    this.#page!.isChanged = true;
    this.#cells[row & this.#mask] = value;
  }

  /** Gives all pages back; afterwards the column is as new. */
  free(): void {
    this.#leave();
    for (const page of this.#pages) if (page) this.#space.free(page);
    this.#pages.length = 0;
  }

  #turn(at: number, page: Page): void {
    this.#leave();
    this.#open(at, page, this.#space.pin(page));
  }

  #begin(at: number): void {
    this.#leave();
    const page = this.#space.newPage();
    this.#pages[at] = page;
    this.#open(at, page, page.bytes!);
    if (this.#initial !== 0) this.#cells.fill(this.#initial);
  }

  #open(at: number, page: Page, bytes: Uint8Array<ArrayBuffer>): void {
    this.#at = at;
    this.#page = page;
    this.#cells = new this.#kind(bytes.buffer);
  }

  #leave(): void {
    if (this.#page) this.#space.unpin(this.#page);
    this.#page = undefined;
    this.#at = -1;
  }
}
