/** Bytes of a page. Columns are walked in order, so a page is turned every few thousand rows. */
export const PAGE_BYTES = 1 << 14;

/** Pages in memory beside those that are being read: 4 MiB, whatever the size of what is imported. */
const RESIDENT_PAGES = 256;

/** Where pages go that do not stay in memory. Calls are synchronous, and give or take whole pages. */
export interface PageFile {
  /**
   * Fills a page with what was written last under its slot.
   *
   * @param slot which page, from 0; only slots that were written are read
   */
  read(slot: number, page: Uint8Array): void;
  /** Keeps a page under a slot, in place of what was there. */
  write(slot: number, page: Uint8Array): void;
  /** Gives everything back; called once. */
  close(): void;
}

/** A piece of the scratch space. */
export interface Page {
  /** Undefined while it is in the file alone. */
  bytes: Uint8Array<ArrayBuffer> | undefined;
  /** Its place in the file; -1 when it was never written. */
  slot: number;
  /** How many are reading it: it stays in memory meanwhile. */
  pins: number;
  isChanged: boolean;
}

/**
 * Room for what an import has to remember of each line: in memory as long as it is little, then in a file, of which the
 * pages that were used last stay in memory.
 */
export class ScratchSpace {
  readonly #openFile: (() => PageFile) | undefined;
  readonly #residentPages: number;
  #file: PageFile | undefined;
  /** Pages in memory that nobody is reading, the one used last at the end. */
  readonly #idle = new Set<Page>();
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];
  readonly #freeSlots: number[] = [];
  #slots = 0;

  /**
   * @param openFile makes the file when it is first needed; without it everything stays in memory
   * @param residentPages pages in memory beside those that are being read; default: 256, which are 4 MiB
   */
  constructor(openFile?: () => PageFile, residentPages = RESIDENT_PAGES) {
    this.#openFile = openFile;
    this.#residentPages = Math.max(1, residentPages);
  }

  /** A page of zeros, pinned. */
  newPage(): Page {
    this.#makeRoom();
    const bytes = this.#spare.pop()?.fill(0) ?? new Uint8Array(PAGE_BYTES);
    return { bytes, slot: -1, pins: 1, isChanged: false };
  }

  /** The bytes of a page, which stay where they are until it is unpinned as often as it was pinned. */
  pin(page: Page): Uint8Array<ArrayBuffer> {
    page.pins++;
    if (page.bytes) {
      this.#idle.delete(page);
      return page.bytes;
    }
    this.#makeRoom();
    const bytes = this.#spare.pop() ?? new Uint8Array(PAGE_BYTES);
    this.#file!.read(page.slot, bytes);
    page.bytes = bytes;
    return bytes;
  }

  /** Says that a page is not being read any more, by one of those who pinned it. */
  unpin(page: Page): void {
    if (--page.pins === 0) this.#idle.add(page);
  }

  /** Forgets a page that nobody is reading. */
  free(page: Page): void {
    this.#idle.delete(page);
    if (page.bytes) this.#spare.push(page.bytes);
    if (page.slot >= 0) this.#freeSlots.push(page.slot);
    page.bytes = undefined;
    if (this.#spare.length > this.#residentPages) this.#spare.length = this.#residentPages;
  }

  /** Gives back memory and file; nothing of what was kept may be used any more. */
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
      this.#file.write(page!.slot, bytes!);
      page!.isChanged = false;
    }
    this.#idle.delete(page!);
    page!.bytes = undefined;
    this.#spare.push(bytes!);
  }
}
