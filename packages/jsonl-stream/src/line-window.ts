import type { ByteView } from "./byte-view.ts";
import { JsonlError } from "./jsonl-error.ts";
import type { LineFinder } from "./line-finder.ts";
import { readBuffer } from "./read-buffer.ts";

/** The newline byte: the only thing that ends a line. */
export const LINE_FEED = 10;

/** A block too small for a line becomes so many times larger: copying and touching memory anew is what a huge line costs. */
export const GROWTH = 4;

/** How to read while walking lines. */
export interface ScanOptions {
  /** Bytes read at a time. Default 1 MiB; between 64 KiB and 4 MiB measured no difference. */
  blockSize?: number;
  /**
   * A line of more bytes is visited cut to its first `longest`, so that a file without newlines cannot exhaust
   * memory. Default 1 GiB, twice what can be parsed; at least `blockSize`.
   */
  longest?: number;
  /** What finds the lines in the blocks that are read. Default a {@link NewlineFinder}; for one walk at a time. */
  finder?: LineFinder;
}

/** {@link ScanOptions} with everything decided, and the part of the view to walk. */
export interface WindowRange {
  low: number;
  high: number;
  blockSize: number;
  longest: number;
  finder: LineFinder | undefined;
}

/** Decides what options leave open; a range reaches no further than the view. */
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

/** A block for a range: never larger than what there is to read, and in the finder's memory where it has room for it. */
export function firstBlock({ low, high, blockSize, finder }: WindowRange): Uint8Array {
  const length = Math.max(1, Math.min(blockSize, high - low));
  const memory = finder?.memory;
  return memory && length <= memory.length ? memory.subarray(0, length) : readBuffer(length);
}

/** The same memory with the fastest search for a byte: Node's Buffer has memchr, browsers only what Uint8Array has. */
export function searchable(block: Uint8Array): Uint8Array {
  const buffer = globalThis.Buffer;
  return buffer === undefined ? block : buffer.from(block.buffer, block.byteOffset, block.byteLength);
}

/** Fills the whole of `target` or throws: a view that ends early is a file that was shortened meanwhile. */
export function fill(view: ByteView, offset: number, target: Uint8Array): void {
  if (view.readInto(offset, target) === target.length) return;
  throw new JsonlError(
    "shrunk",
    `The bytes at offset ${offset} are gone: the file was shortened while being read.`,
  );
}
