// Separate from append-file.ts: browsers scan lines too, but have no files.
import { EspalierError } from "./error.ts";
import { contentEnd, contentStart } from "./lines.ts";

/** Options of reading lines. */
export interface ScanOptions {
  /** Bytes read at once. Default 1 MiB; sizes from 64 KiB to 4 MiB were equally fast. */
  blockSize?: number;
  /**
   * Maximum bytes of a visited line. Of a longer line, only the first `longest` bytes are visited, so that a file
   * without newlines cannot exhaust memory. Default 1 GiB, twice the length that can be parsed. A value below
   * `blockSize` counts as `blockSize`.
   */
  longest?: number;
  /** Finds the lines in the blocks. Default: a {@link NewlineFinder}. Use a finder for one walk at a time. */
  finder?: LineFinder;
}

/** Options of a walk forward. */
export interface ForwardOptions extends ScanOptions {
  /** Byte offset at which the walk begins: the first byte of a line. Default 0. */
  from?: number;
  /** Byte offset at which the walk ends (exclusive). Default, and at most: the view's size. */
  to?: number;
  /** Number of the first line. Default 1. */
  lineNumber?: number;
}

/**
 * Receives one line; returns false to stop. `block` is reused: copy everything that is needed after the call.
 *
 * @param block - holds the line's content in `[start, end)`, without its newline, a CR before it, and the file's BOM
 * @param offset - offset in the view of the line as stored: of `block[start]`, or of the BOM before it
 * @param lineNumber - includes blank lines
 * @param terminated - false for a last line without newline
 */
export type LineVisitor = (
  block: Uint8Array,
  start: number,
  end: number,
  offset: number,
  lineNumber: number,
  terminated: boolean,
  // biome-ignore lint/suspicious/noConfusingVoidType: a visitor that never stops returns nothing
) => void | false;

/**
 * Visits the lines of a view in order, including blank ones, without allocating memory per line. `scanLines` is a more
 * convenient form. Linear in bytes, for lines of any length.
 *
 * @throws EspalierError `shrunk` when the view ends before its size
 */
export function forEachLine(view: ByteView, visit: LineVisitor, options: ForwardOptions = {}): void {
  const window = new ForwardWindow(view, options);
  let { lineNumber = 1 } = options;
  try {
    while (window.advance()) {
      const { block, offset, finder } = window;
      for (let start = 0; start < window.end; lineNumber += 1) {
        const stop = finder.stopOf(start);
        const first = offset + start === 0 ? contentStart(block, start, stop) : start;
        const end = contentEnd(block, first, stop);
        const terminated = window.isTerminated(stop);
        if (visit(block, first, end, offset + start, lineNumber, terminated) === false) return;
        start = stop + 1;
      }
    }
  } finally {
    window.finder.release?.();
  }
}

/** One line of a view. */
export interface Line {
  /** Number of the line. The first line of the scan has `ForwardOptions.lineNumber` (default 1). Blank lines count. */
  lineNumber: number;
  /** Offset in the view of the line as stored. */
  offset: number;
  /**
   * Bytes of the line as stored, with BOM and CR, without its newline: `view.read(offset, length)` returns them. At
   * most `longest`.
   */
  length: number;
  /** Content of the line, without BOM and CR. Valid until the next line is requested: copy it to keep it. */
  bytes: Uint8Array;
  /** False for a last line without newline. */
  terminated: boolean;
}

/** Yields the lines of a view in order, including blank ones: `forEachLine` with an object per line. */
export function* scanLines(view: ByteView, options: ForwardOptions = {}): Generator<Line, void> {
  const window = new ForwardWindow(view, options);
  let { lineNumber = 1 } = options;
  try {
    while (window.advance()) {
      const { block, finder } = window;
      for (let start = 0; start < window.end; lineNumber += 1) {
        const stop = finder.stopOf(start);
        const offset = window.offset + start;
        const first = offset === 0 ? contentStart(block, start, stop) : start;
        const bytes = block.subarray(first, contentEnd(block, first, stop));
        yield { lineNumber, offset, length: stop - start, bytes, terminated: window.isTerminated(stop) };
        start = stop + 1;
      }
    }
  } finally {
    window.finder.release?.();
  }
}

/** Receives one line, like a {@link LineVisitor}, but without the line's number, which is not known. */
export type BackwardLineVisitor = (
  block: Uint8Array,
  start: number,
  end: number,
  offset: number,
  terminated: boolean,
  // biome-ignore lint/suspicious/noConfusingVoidType: a visitor that never stops returns nothing
) => void | false;

/**
 * Visits the lines of a view from the last to the first, including blank ones; otherwise like {@link forEachLine}. When
 * the visitor stops, at most one block beyond the visited lines has been read.
 *
 * @throws EspalierError `shrunk` when the view ends before its size
 */
export function forEachLineBackward(
  view: ByteView,
  visit: BackwardLineVisitor,
  options: ScanOptions = {},
): void {
  const window = new BackwardWindow(view, options);
  try {
    while (window.advance()) {
      const { block, start: low, offset, finder } = window;
      for (let stop = window.end; stop > low; ) {
        const last = block[stop - 1] === LINE_FEED ? stop - 1 : stop;
        const start = finder.startOf(last);
        const first = start + offset === 0 ? contentStart(block, start, last) : start;
        const end = contentEnd(block, first, last);
        if (visit(block, first, end, start + offset, window.isTerminated(last)) === false) return;
        stop = start;
      }
    }
  } finally {
    window.finder.release?.();
  }
}

/**
 * Whole lines in a reused block, moved along a range of a view. Each byte is read once; twice in a line longer than
 * `longest`. A line longer than the block makes the block grow, until that line has been visited. The block grows in
 * large steps, so that a huge line is rarely copied.
 */
abstract class LineWindow {
  block: Uint8Array;
  /** End of the window in the block. Only the last line of the window can lack a newline. */
  end = 0;
  /** Offset of the block in the view. */
  offset = 0;
  readonly finder: LineFinder;
  protected readonly blockSize: number;
  protected readonly longest: number;
  protected cutTerminated = false;
  /** The block in the form that is searched fastest. */
  protected bytes: Uint8Array;
  protected readonly view: ByteView;
  readonly #firstBlock: Uint8Array;
  /** A larger block that was needed before, for the next line that needs one. */
  #spare: Uint8Array | undefined;

  /** @param size bytes of the range */
  constructor(view: ByteView, size: number, options: ScanOptions) {
    this.view = view;
    this.blockSize = Math.max(1, options.blockSize ?? 1 << 20);
    this.longest = Math.max(this.blockSize, options.longest ?? 1 << 30);
    this.finder = options.finder ?? new NewlineFinder();
    // The block is not larger than the range. It is in the finder's memory if it fits there.
    const length = Math.max(1, Math.min(this.blockSize, size));
    const memory = this.finder.acquire?.();
    this.block = memory && length <= memory.length ? memory.subarray(0, length) : readBuffer(length);
    this.#firstBlock = this.block;
    this.bytes = searchable(this.block);
  }

  /** Returns whether the line whose content ends at `end` has its newline. */
  isTerminated(end: number): boolean {
    return end < this.end || this.cutTerminated;
  }

  /**
   * Moves `block[from, to)` to the beginning or the end of the block, or of the first block when a larger one is no
   * longer needed. Returns the number of bytes.
   */
  protected carry(from: number, to: number, side: "beginning" | "end"): number {
    const length = to - from;
    const before = this.block;
    if (before !== this.#firstBlock && length <= this.#firstBlock.length / 2) {
      this.#spare = before;
      this.#use(this.#firstBlock);
    }
    const at = side === "beginning" ? 0 : this.block.length - length;
    if (this.block === before) this.block.copyWithin(at, from, to);
    else this.block.set(before.subarray(from, to), at);
    return length;
  }

  /**
   * Moves the block's bytes to the beginning or the end of a larger block. Returns false when the block already has
   * `most` bytes.
   */
  protected grow(most: number, side: "beginning" | "end"): boolean {
    const before = this.block;
    if (before.length >= most) return false;
    const wanted = Math.min(before.length * GROWTH, most);
    const spare = this.#spare;
    this.#use(spare && spare.length >= wanted ? spare : new Uint8Array(wanted));
    this.block.set(before, side === "beginning" ? 0 : this.block.length - before.length);
    return true;
  }

  #use(block: Uint8Array): void {
    this.block = block;
    this.bytes = searchable(block);
  }
}

/** The window `[0, end)` of the block, moved from the beginning of a range to its end. */
class ForwardWindow extends LineWindow {
  /** Used bytes of the block: the window, and the bytes that were read beyond it. */
  #filled = 0;
  /** Offset in the view of the next read. */
  #position: number;
  readonly #high: number;

  constructor(view: ByteView, options: ForwardOptions) {
    const low = Math.max(0, options.from ?? 0);
    const high = Math.min(options.to ?? view.size, view.size);
    super(view, high - low, options);
    this.#position = low;
    this.#high = high;
  }

  /** Moves to the next lines. Returns false at the end of the range. */
  advance(): boolean {
    this.#filled = this.carry(this.end, this.#filled, "beginning");
    this.offset = this.#position - this.#filled;
    this.cutTerminated = false;
    this.end = this.#findEnd();
    if (this.end > 0) this.finder.look(this.block, 0, this.end);
    return this.end > 0;
  }

  #findEnd(): number {
    while (this.#position < this.#high) {
      if (this.#filled === this.block.length && !this.grow(this.longest, "beginning")) return this.#cut();
      const room = Math.min(this.block.length - this.#filled, this.#high - this.#position, this.blockSize);
      const fresh = this.bytes.subarray(this.#filled, this.#filled + room);
      fill(this.view, this.#position, fresh);
      const last = fresh.lastIndexOf(LINE_FEED);
      this.#position += room;
      this.#filled += room;
      if (last >= 0) return this.#filled - room + last + 1;
    }
    return this.#filled;
  }

  /** Makes the line's first `longest` bytes the window, and moves to the next line. */
  #cut(): number {
    const scratch = searchable(new Uint8Array(this.blockSize));
    while (this.#position < this.#high && !this.cutTerminated) {
      const part = scratch.subarray(0, Math.min(scratch.length, this.#high - this.#position));
      fill(this.view, this.#position, part);
      const found = part.indexOf(LINE_FEED);
      this.cutTerminated = found >= 0;
      this.#position += found >= 0 ? found + 1 : part.length;
    }
    this.#filled = this.longest;
    return this.longest;
  }
}

/**
 * The window `[start, end)` of the block, moved from the end of a view to its beginning. The block is filled from its
 * right end, and an incomplete line at its beginning is moved there.
 */
class BackwardWindow extends LineWindow {
  start: number;
  /** Beginning of the used bytes: bytes that were read before the window, and the window. */
  #low: number;
  /** Offset in the view of the last read: of the used bytes. */
  #position: number;

  constructor(view: ByteView, options: ScanOptions) {
    super(view, view.size, options);
    this.#position = view.size;
    this.#low = this.start = this.end = this.block.length;
  }

  /** Moves to the previous lines; returns false when there are none. */
  advance(): boolean {
    const carried = this.carry(this.#low, this.start, "end");
    this.end = this.block.length;
    this.#low = this.end - carried;
    this.cutTerminated = false;
    this.start = this.#findStart();
    this.offset = this.#position - this.#low;
    const isMore = this.end > this.start;
    if (isMore) this.finder.look(this.block, this.start, this.end);
    return isMore;
  }

  #findStart(): number {
    while (this.#position > 0) {
      if (this.#low === 0 && !this.#grow()) return this.#cut();
      const room = Math.min(this.#low, this.#position, this.blockSize);
      const fresh = this.bytes.subarray(this.#low - room, this.#low);
      fill(this.view, this.#position - room, fresh);
      // The last byte in use ends the last line or belongs to it, so it cannot be the newline before a window.
      const found = (this.#low === this.end ? fresh.subarray(0, -1) : fresh).indexOf(LINE_FEED);
      this.#position -= room;
      this.#low -= room;
      if (found >= 0) return this.#low + found + 1;
    }
    return this.#low;
  }

  #grow(): boolean {
    const { length } = this.block;
    const newline = this.block[this.end - 1] === LINE_FEED ? 1 : 0;
    if (!this.grow(this.longest + newline, "end")) return false;
    this.#low = this.block.length - length;
    this.end = this.block.length;
    return true;
  }

  /** Moves to the beginning of a line of at least `longest` bytes, and makes its first `longest` bytes the window. */
  #cut(): number {
    this.cutTerminated = this.block[this.end - 1] === LINE_FEED;
    const scratch = searchable(new Uint8Array(this.blockSize));
    for (let found = -1; this.#position > 0 && found < 0; ) {
      const part = scratch.subarray(0, Math.min(scratch.length, this.#position));
      fill(this.view, this.#position - part.length, part);
      found = part.lastIndexOf(LINE_FEED);
      this.#position -= part.length - (found + 1);
    }
    fill(this.view, this.#position, this.block.subarray(0, this.longest));
    this.#low = 0;
    this.end = this.longest;
    return 0;
  }
}

/** The newline byte. No other byte ends a line. */
export const LINE_FEED = 10;

/**
 * Growth factor of a block that is too small for a line. Large steps, because copying and new memory are the cost of a
 * huge line.
 */
const GROWTH = 4;

/**
 * Returns the same memory in the form with the fastest search for a byte: Node's Buffer has memchr, a browser has only
 * Uint8Array.
 */
function searchable(block: Uint8Array): Uint8Array {
  const buffer = globalThis.Buffer;
  return buffer === undefined ? block : buffer.from(block.buffer, block.byteOffset, block.byteLength);
}

/** Fills the whole of `target`. Throws `shrunk` when the view ends early, because the file was shortened in the meantime. */
function fill(view: ByteView, offset: number, target: Uint8Array): void {
  if (view.readInto(offset, target) === target.length) return;
  throw new EspalierError(
    "shrunk",
    `The bytes at offset ${offset} are gone: the file was shortened while being read.`,
  );
}

/**
 * Finds the beginnings and ends of lines in the blocks of a walk. {@link NewlineFinder} searches for one newline after
 * the other. Other finders can scan a whole window at once, and keep facts about each line for the visitor.
 */
export interface LineFinder {
  /**
   * Called when a walk begins. Returns memory of the finder into which blocks are read, if it has any. A block that does
   * not fit is read into other memory.
   */
  acquire?(): Uint8Array | undefined;
  /** Called when the walk ends, also after an error. The memory is no longer used. */
  release?(): void;
  /**
   * Called with each window before its lines are requested: whole lines in `block[start, end)`. Only the last can lack
   * a newline.
   */
  look(block: Uint8Array, start: number, end: number): void;
  /**
   * Returns the stop of the line that begins at `start`: its newline, or the window's end. Called line by line, in a
   * walk forward.
   */
  stopOf(start: number): number;
  /** Returns the beginning of the line whose content stops at `stop`. Called line by line, in a walk backward. */
  startOf(stop: number): number;
}

/** Finds one line after the other, with the fastest available search for a byte. */
export class NewlineFinder implements LineFinder {
  #bytes: Uint8Array = new Uint8Array();
  #start = 0;
  #end = 0;

  look(block: Uint8Array, start: number, end: number): void {
    this.#bytes = searchable(block);
    this.#start = start;
    this.#end = end;
  }

  stopOf(start: number): number {
    const found = this.#bytes.indexOf(LINE_FEED, start);
    return found >= 0 && found < this.#end ? found : this.#end;
  }

  startOf(stop: number): number {
    if (stop <= this.#start) return this.#start;
    return Math.max(this.#start, this.#bytes.lastIndexOf(LINE_FEED, stop - 1) + 1);
  }
}

/**
 * Bytes between the beginning of the memory and of the buffer in it. Large allocations begin 16 bytes into a page. If
 * the system copies there from the start of a page of its file cache, it waits for its own writes at each cache line of
 * the processor: 2 GB took 280 ms, and 155 ms at offsets of 32 bytes or more into a page.
 */
const SHIFT = 48;

/** Returns memory for reading files, aligned so that the system copies fastest. */
function readBuffer(length: number): Uint8Array {
  return new Uint8Array(new ArrayBuffer(length + SHIFT), SHIFT, length);
}

/**
 * The beginning of an append-only sequence of bytes, read synchronously. Its content never changes. The file can grow,
 * but the view does not. Reads from a file throw `closed`, `shrunk`, `unreadable` or `removed`.
 */
export interface ByteView {
  /** Bytes in the view. */
  readonly size: number;
  /** Returns `length` bytes from `offset` on, or fewer at the end of the view. The caller can keep them. */
  read(offset: number, length: number): Uint8Array;
  /** Fills `target` from `offset` on; returns the number of bytes, which is smaller only at the end of the view. */
  readInto(offset: number, target: Uint8Array): number;
}

/** Returns a view of `size` bytes. `fill` gets ranges within the view, and fills its whole target or throws. */
export function viewOf(size: number, fill: (offset: number, target: Uint8Array) => void): ByteView {
  const within = (offset: number, length: number) => Math.max(0, Math.min(length, size - offset));
  return {
    size,
    read(offset, length) {
      const bytes = new Uint8Array(within(offset, length));
      fill(offset, bytes);
      return bytes;
    },
    readInto(offset, target) {
      const length = within(offset, target.length);
      fill(offset, target.subarray(0, length));
      return length;
    },
  };
}

/** Returns a view of bytes in memory. Do not change the bytes afterwards: `read` returns parts of them, not copies. */
export function bytesView(bytes: Uint8Array): ByteView {
  return {
    size: bytes.length,
    read: (offset, length) => bytes.subarray(offset, Math.min(offset + length, bytes.length)),
    readInto(offset, target) {
      const part = bytes.subarray(offset, Math.min(offset + target.length, bytes.length));
      target.set(part);
      return part.length;
    },
  };
}

/** Returns all bytes of several arrays as one. */
export function joinBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let end = 0;
  for (const part of parts) {
    whole.set(part, end);
    end += part.length;
  }
  return whole;
}
