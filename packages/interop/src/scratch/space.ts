import { IdHash } from "@espalier/session-tree";

/** Number of bytes of a page. Columns are read in order, so that the page changes only every few thousand rows. */
const PAGE_BYTES = 1 << 14;

/** Number of unpinned pages in memory: 4 MiB, for imports of any size. */
const RESIDENT_PAGES = 256;

/** File for pages that are not in memory. Calls are synchronous, and read or write whole pages. */
export interface PageFile {
  /** Fills a page with the last content at an offset. Only written pages are read. */
  read(offset: number, page: Uint8Array): void;
  /** Writes a page at an offset. */
  write(offset: number, page: Uint8Array): void;
  /** Deletes the file; called once. */
  close(): void;
}

/** A piece of the scratch space. */
export interface Page {
  /** Content; undefined while it is only in the file. */
  bytes: Uint8Array<ArrayBuffer> | undefined;
  /** Slot in the file; -1 when it was never written. */
  slot: number;
  /** Number of readers: the page stays in memory while there are any. */
  pins: number;
  isChanged: boolean;
}

/**
 * Space for the facts that an import keeps of each line: in memory while there are few, then in a file, whose most
 * recently used pages stay in memory.
 */
export class ScratchSpace {
  readonly #openFile: (() => PageFile) | undefined;
  readonly #residentPages: number;
  #file: PageFile | undefined;
  /** Pages in memory without readers; the most recently used one comes last. */
  readonly #idle = new Set<Page>();
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];
  readonly #freeSlots: number[] = [];
  #slots = 0;

  /**
   * @param openFile makes the file when it is first needed; without it all pages stay in memory
   * @param residentPages number of unpinned pages in memory, at least 1; default: 256, which are 4 MiB
   */
  constructor(openFile?: () => PageFile, residentPages = RESIDENT_PAGES) {
    this.#openFile = openFile;
    this.#residentPages = residentPages;
  }

  /**
   * Pins a page and returns its bytes; zeros for a page that was never changed. The bytes are valid until each pin
   * has been released.
   */
  pin(page: Page): Uint8Array<ArrayBuffer> {
    page.pins++;
    if (page.bytes) {
      this.#idle.delete(page);
      return page.bytes;
    }
    this.#makeRoom();
    page.bytes = this.#spare.pop()?.fill(0) ?? new Uint8Array(PAGE_BYTES);
    if (page.slot >= 0) this.#file!.read(page.slot * PAGE_BYTES, page.bytes);
    return page.bytes;
  }

  /** Removes one pin of a page. */
  unpin(page: Page): void {
    if (--page.pins === 0) this.#idle.add(page);
  }

  /** Releases a page without pins. */
  free(page: Page): void {
    this.#idle.delete(page);
    if (page.bytes) this.#spare.push(page.bytes);
    if (page.slot >= 0) this.#freeSlots.push(page.slot);
    page.bytes = undefined;
    if (this.#spare.length > this.#residentPages) this.#spare.length = this.#residentPages;
  }

  /** Releases memory and file; no column may be used any more. */
  close(): void {
    this.#file?.close();
    this.#file = undefined;
    this.#idle.clear();
    this.#spare.length = 0;
  }

  #makeRoom(): void {
    if (!this.#openFile || this.#idle.size < this.#residentPages) return;
    const [page] = this.#idle;
    const { bytes } = page!;
    if (page!.isChanged) {
      this.#file ??= this.#openFile();
      if (page!.slot < 0) page!.slot = this.#freeSlots.pop() ?? this.#slots++;
      this.#file.write(page!.slot * PAGE_BYTES, bytes!);
      page!.isChanged = false;
    }
    this.#idle.delete(page!);
    page!.bytes = undefined;
    this.#spare.push(bytes!);
  }
}

/** A part of the scratch space that is released as a whole: columns, and the hash function for their ids. */
export class ScratchArea {
  readonly hash = new IdHash();
  readonly #space: ScratchSpace;
  readonly #columns = new Set<ScratchColumn<Cells>>();

  constructor(space: ScratchSpace) {
    this.#space = space;
  }

  /** Makes a column of numbers of one array type, filled with `initial`. Offsets in files need `Float64Array`. */
  column<Of extends Cells>(kind: CellsOf<Of>, initial = 0): ScratchColumn<Of> {
    const column = new ScratchColumn(this.#space, kind, initial);
    this.#columns.add(column);
    return column;
  }

  /** Releases one column. */
  free(column: ScratchColumn<Cells>): void {
    this.#columns.delete(column);
    column.free();
  }

  /** Releases all columns; none of them may be used afterwards. */
  close(): void {
    for (const column of this.#columns) column.free();
    this.#columns.clear();
  }
}

type Cells = Uint8Array | Int32Array | Uint32Array | Float64Array;

type CellsOf<Of extends Cells> = {
  new (buffer: ArrayBuffer): Of;
  readonly BYTES_PER_ELEMENT: number;
};

/**
 * A number for each row, as in a typed array of unlimited length. Access to nearby rows is as fast as in a typed array;
 * access to distant rows changes the page.
 */
export class ScratchColumn<Of extends Cells> {
  readonly #space: ScratchSpace;
  readonly #kind: CellsOf<Of>;
  readonly #initial: number;
  readonly #pages: (Page | undefined)[] = [];
  readonly #shift: number;
  readonly #mask: number;
  /** Number of the open page, which is pinned. */
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

  /** Returns the number of a row; the initial number for a row that has none, and for one below 0. */
  get(row: number): number {
    const at = row >>> this.#shift;
    if (at !== this.#at) {
      if (!this.#pages[at]) return this.#initial;
      this.#open(at);
    }
    return this.#cells[row & this.#mask]!;
  }

  set(row: number, value: number): void {
    const at = row >>> this.#shift;
    if (at !== this.#at) this.#open(at);
    this.#page!.isChanged = true;
    this.#cells[row & this.#mask] = value;
  }

  /** Releases all pages; afterwards the column is empty. */
  free(): void {
    this.#leave();
    for (const page of this.#pages) if (page) this.#space.free(page);
    this.#pages.length = 0;
  }

  #open(at: number): void {
    this.#leave();
    const known = this.#pages[at];
    const page: Page = known ?? { bytes: undefined, slot: -1, pins: 0, isChanged: false };
    this.#pages[at] = page;
    this.#page = page;
    this.#at = at;
    this.#cells = new this.#kind(this.#space.pin(page).buffer);
    if (!known && this.#initial !== 0) this.#cells.fill(this.#initial);
  }

  #leave(): void {
    if (this.#page) this.#space.unpin(this.#page);
    this.#page = undefined;
    this.#at = -1;
  }
}

/** Short texts, one after the other: ids of lines. */
export class ScratchTexts {
  /** Number of texts. */
  length = 0;
  /** Two bytes for each code unit, because an id may have a lone surrogate. */
  readonly #bytes: ScratchColumn<Uint8Array>;
  /** End of each text, in code units. */
  readonly #ends: ScratchColumn<Float64Array>;
  #end = 0;

  constructor(area: ScratchArea) {
    this.#bytes = area.column(Uint8Array);
    this.#ends = area.column(Float64Array);
  }

  add(text: string): void {
    for (let at = 0; at < text.length; at++, this.#end++) {
      const unit = text.charCodeAt(at);
      this.#bytes.set(2 * this.#end, unit & 255);
      this.#bytes.set(2 * this.#end + 1, unit >>> 8);
    }
    this.#ends.set(this.length++, this.#end);
  }

  /** Drops the texts from an index on. */
  cut(place: number): void {
    this.length = place;
    this.#end = this.#startOf(place);
  }

  /** Returns the text at an index, from 0. */
  get(place: number): string {
    let text = "";
    for (let at = this.#startOf(place); at < this.#ends.get(place); at++)
      text += String.fromCharCode(this.#bytes.get(2 * at) | (this.#bytes.get(2 * at + 1) << 8));
    return text;
  }

  #startOf(place: number): number {
    return place === 0 ? 0 : this.#ends.get(place - 1);
  }
}

/** A hash of 64 bits, as in `IdHash`. Its bits are evenly distributed. */
export interface Hash {
  high: number;
  low: number;
}

/** Number of bits for the slots of an empty table, which fit into one page. */
const FEWEST_BITS = 10;

/** Share of used slots above which the number of slots is doubled. */
const MOST_TAKEN = 0.75;

/**
 * A row for each hash, for any number of hashes: an open-addressing table whose slots are ordered by the upper half of
 * the hash. The table therefore grows by one pass in order, and the page of an id is in memory while nearby rows name
 * it.
 */
export class HashRows {
  readonly #area: ScratchArea;
  /** Three numbers a slot: the row from 1 on, 0 for a free slot, and the two halves of the hash. */
  #slots: ScratchColumn<Int32Array>;
  #bits = FEWEST_BITS;
  #count = 0;

  constructor(area: ScratchArea) {
    this.#area = area;
    this.#slots = area.column(Int32Array);
  }

  /** Returns the row of a text; -1 for an unknown text. */
  rowOf(text: string): number {
    this.#area.hash.hashText(text);
    return this.find(this.#area.hash);
  }

  /** Sets the row of a text that has none. Returns the row of the text. */
  add(text: string, row: number): number {
    const first = this.rowOf(text);
    if (first >= 0) return first;
    this.set(this.#area.hash, row);
    return row;
  }

  /** Returns the row of a hash; -1 when there is none. */
  find(hash: Hash): number {
    return this.#slots.get(this.#slotOf(hash)) - 1;
  }

  /** Sets the row of a hash, in place of a row that it has. */
  set(hash: Hash, row: number): void {
    const at = this.#slotOf(hash);
    const isNew = this.#slots.get(at) === 0;
    this.#slots.set(at, row + 1);
    if (!isNew) return;
    this.#slots.set(at + 1, hash.high);
    this.#slots.set(at + 2, hash.low);
    if (++this.#count > MOST_TAKEN * 2 ** this.#bits) this.#grow();
  }

  forEach(visit: (hash: Hash, row: number) => void): void {
    const slots = this.#slots;
    for (let at = 0; at < 3 * 2 ** this.#bits; at += 3) {
      const row = slots.get(at) - 1;
      if (row >= 0) visit({ high: slots.get(at + 1), low: slots.get(at + 2) }, row);
    }
  }

  #grow(): void {
    const wider = new HashRows(this.#area);
    wider.#bits = this.#bits + 1;
    this.forEach((hash, row) => {
      wider.set(hash, row);
    });
    this.#area.free(this.#slots);
    this.#slots = wider.#slots;
    this.#bits = wider.#bits;
  }

  /** Returns the slot of a hash, or the free slot where it belongs. */
  #slotOf({ high, low }: Hash): number {
    const slots = this.#slots;
    const end = 3 * 2 ** this.#bits;
    let at = 3 * (high >>> (32 - this.#bits));
    while (slots.get(at) !== 0 && (slots.get(at + 1) !== high || slots.get(at + 2) !== low))
      at = at + 3 === end ? 0 : at + 3;
    return at;
  }
}
