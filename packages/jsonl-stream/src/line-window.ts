import type { ByteView } from "./byte-view.ts";
import { JsonlError } from "./jsonl-error.ts";

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
}

/** {@link ScanOptions} with everything decided, and the part of the view to walk. */
export interface WindowRange {
  low: number;
  high: number;
  blockSize: number;
  longest: number;
}

/** Decides what options leave open; a range reaches no further than the view. */
export function windowRange(view: ByteView, low = 0, high = view.size, options: ScanOptions): WindowRange {
  const blockSize = Math.max(1, options.blockSize ?? 1 << 20);
  const longest = Math.max(blockSize, options.longest ?? 1 << 30);
  return { low: Math.max(0, low), high: Math.min(high, view.size), blockSize, longest };
}

/** A block for a range: never larger than what there is to read. */
export function firstBlock({ low, high, blockSize }: WindowRange): Uint8Array {
  return new Uint8Array(Math.max(1, Math.min(blockSize, high - low)));
}

/** The same memory with the fastest search for a byte: Node's Buffer has memchr, browsers only what Uint8Array has. */
export function finderOf(block: Uint8Array): Uint8Array {
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
