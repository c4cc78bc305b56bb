import { EspalierError } from "./error.ts";
import { contentEnd, contentStart } from "./lines.ts";

/** Options of a walk forward. */
export interface ForwardOptions extends ScanOptions {
  /** Byte offset of the beginning: the first byte of a line. Default 0. */
  from?: number;
  /** Byte offset of the end (exclusive). Default: the view's size. */
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
  const window = new ForwardWindow(view, windowRange(view, options.from, options.to, options));
  let { lineNumber = 1 } = options;
  while (window.advance()) {
    const { block, offset } = window;
    for (let start = 0; start < window.end; lineNumber += 1) {
      const stop = window.lineStop(start);
      const first = offset + start === 0 ? contentStart(block, start, stop) : start;
      const end = contentEnd(block, first, stop);
      const terminated = window.isTerminated(stop);
      if (visit(block, first, end, offset + start, lineNumber, terminated) === false) return;
      start = stop + 1;
    }
  }
}

/**
 * Whole lines in a reused block, moved along a range of a view. Each byte is read once; twice in a line longer than
 * `longest`. A line longer than the block makes the block grow, until that line has been visited. The block grows in
 * large steps, so that a huge line is rarely copied.
 */
export abstract class LineWindow {
  block: Uint8Array;
  /** End of the window in the block. Only its last line can lack a newline. */
  end = 0;
  /** Offset of the window's first line in the view; in a forward window, of the block. */
  offset: number;
  protected cutTerminated = false;
  /** The block in the form that is searched fastest. */
  protected bytes: Uint8Array;
  protected readonly firstBlock: Uint8Array;
  /** A larger block that was needed before, for the next line that needs one. */
  protected spare: Uint8Array | undefined;
  protected readonly finder: LineFinder;
  /** Offset in the view of the next read. */
  protected position: number;
  protected readonly view: ByteView;
  protected readonly range: WindowRange;

  constructor(view: ByteView, range: WindowRange, position: number) {
    this.view = view;
    this.range = range;
    this.position = position;
    this.offset = position;
    this.finder = range.finder ?? new NewlineFinder();
    this.firstBlock = firstBlock(range);
    this.block = this.firstBlock;
    this.bytes = searchable(this.block);
  }

  /** Returns whether the line whose content ends at `end` has its newline. */
  isTerminated(end: number): boolean {
    return end < this.end || this.cutTerminated;
  }

  /** Returns a block with more room; undefined when the block has `most` already. */
  protected larger(most: number): Uint8Array | undefined {
    const { length } = this.block;
    if (length >= most) return undefined;
    const wanted = Math.min(length * GROWTH, most);
    return this.spare && this.spare.length >= wanted ? this.spare : new Uint8Array(wanted);
  }

  protected use(block: Uint8Array): void {
    this.block = block;
    this.bytes = searchable(block);
  }
}

/** The window `[0, end)` of the block, moved from the beginning of a range to its end. */
export class ForwardWindow extends LineWindow {
  /** Used bytes of the block: the window, and the bytes that were read beyond it. */
  #filled = 0;

  constructor(view: ByteView, range: WindowRange) {
    super(view, range, range.low);
  }

  /** Moves to the next lines; returns false when there are none. */
  advance(): boolean {
    const isMore = this.#fillOn();
    if (isMore) this.finder.look(this.block, 0, this.end);
    return isMore;
  }

  #fillOn(): boolean {
    const { high, blockSize, longest } = this.range;
    this.#carry();
    this.offset = this.position - this.#filled;
    this.cutTerminated = false;
    while (this.position < high) {
      if (this.#filled === this.block.length && !this.#grow(longest)) return this.#cut();
      const room = Math.min(this.block.length - this.#filled, high - this.position, blockSize);
      const fresh = this.bytes.subarray(this.#filled, this.#filled + room);
      fill(this.view, this.position, fresh);
      const last = fresh.lastIndexOf(LINE_FEED);
      this.end = this.#filled + last + 1;
      this.position += room;
      this.#filled += room;
      if (last >= 0) return true;
    }
    this.end = this.#filled;
    return this.end > 0;
  }

  /** Returns the stop of the line that begins at `start`: its newline, or the window's end. */
  lineStop(start: number): number {
    return this.finder.stopOf(start);
  }

  /**
   * Moves the bytes beyond the window to the front of the block, or of the first block when a larger one is no longer
   * needed.
   */
  #carry(): void {
    const carried = this.#filled - this.end;
    if (this.block !== this.firstBlock && carried <= this.firstBlock.length / 2) {
      this.firstBlock.set(this.block.subarray(this.end, this.#filled));
      this.spare = this.block;
      this.use(this.firstBlock);
    } else this.block.copyWithin(0, this.end, this.#filled);
    this.#filled = carried;
  }

  #grow(most: number): boolean {
    const larger = this.larger(most);
    if (!larger) return false;
    larger.set(this.block);
    this.use(larger);
    return true;
  }

  /** Makes the line's first `longest` bytes the window, and moves to the next line. */
  #cut(): boolean {
    const { high, blockSize, longest } = this.range;
    const scratch = searchable(new Uint8Array(blockSize));
    while (this.position < high && !this.cutTerminated) {
      const part = scratch.subarray(0, Math.min(scratch.length, high - this.position));
      fill(this.view, this.position, part);
      const found = part.indexOf(LINE_FEED);
      this.cutTerminated = found >= 0;
      this.position += found >= 0 ? found + 1 : part.length;
    }
    this.end = longest;
    this.#filled = longest;
    return true;
  }
}

/** The newline byte. No other byte ends a line. */
export const LINE_FEED = 10;

/**
 * Growth factor of a block that is too small for a line. Large steps, because copying and new memory are the cost of a
 * huge line.
 */
const GROWTH = 4;

/** Options of reading lines. */
export interface ScanOptions {
  /** Bytes read at once. Default 1 MiB; sizes from 64 KiB to 4 MiB were equally fast. */
  blockSize?: number;
  /**
   * Maximum bytes of a visited line. A longer line is cut, so that a file without newlines cannot exhaust memory.
   * Default 1 GiB, twice the length that can be parsed; at least `blockSize`.
   */
  longest?: number;
  /** Finds the lines in the blocks. Default: a {@link NewlineFinder}. Use a finder for one walk at a time. */
  finder?: LineFinder;
}

/** {@link ScanOptions} with all defaults, and the part of the view to walk. */
export interface WindowRange {
  low: number;
  high: number;
  blockSize: number;
  longest: number;
  finder: LineFinder | undefined;
}

/** Returns a range with all defaults, limited to the view. */
export function windowRange(view: ByteView, low = 0, high = view.size, options: ScanOptions): WindowRange {
  const blockSize = Math.max(1, options.blockSize ?? 1 << 20);
  const longest = Math.max(blockSize, options.longest ?? 1 << 30);
  return {
    low: Math.max(0, low),
    high: Math.min(high, view.size),
    blockSize,
    longest,
    finder: options.finder,
  };
}

/** Returns a block for a range: not larger than the range, and in the finder's memory if it fits there. */
function firstBlock({ low, high, blockSize, finder }: WindowRange): Uint8Array {
  const length = Math.max(1, Math.min(blockSize, high - low));
  const memory = finder?.memory;
  return memory && length <= memory.length ? memory.subarray(0, length) : readBuffer(length);
}

/**
 * Returns the same memory in the form with the fastest search for a byte: Node's Buffer has memchr, a browser has only
 * Uint8Array.
 */
export function searchable(block: Uint8Array): Uint8Array {
  const buffer = globalThis.Buffer;
  return buffer === undefined ? block : buffer.from(block.buffer, block.byteOffset, block.byteLength);
}

/** Fills the whole of `target`. Throws `shrunk` when the view ends early, because the file was shortened in the meantime. */
export function fill(view: ByteView, offset: number, target: Uint8Array): void {
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
  /** Memory of the finder into which blocks are read. A block that does not fit is read into other memory. */
  readonly memory?: Uint8Array | undefined;
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
  #block: Uint8Array = new Uint8Array();
  #bytes = this.#block;
  #start = 0;
  #end = 0;

  look(block: Uint8Array, start: number, end: number): void {
    if (block !== this.#block) {
      this.#block = block;
      this.#bytes = searchable(block);
    }
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
 * but the view does not.
 */
export interface ByteView {
  /** Bytes in the view. */
  readonly size: number;
  /** Returns the bytes from `offset` on: `length` bytes, or as many as the view has. The caller can keep them. */
  read(offset: number, length: number): Uint8Array;
  /** Fills `target` from `offset` on; returns the number of bytes, which is smaller only at the end of the view. */
  readInto(offset: number, target: Uint8Array): number;
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
