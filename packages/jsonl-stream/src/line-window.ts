import type { ByteView } from "./byte-view.ts";
import { JsonlError } from "./jsonl-error.ts";

/** The newline byte: the only thing that ends a line. */
export const LINE_FEED = 10;

/** Which part of a view to walk, and how. */
export interface ScanOptions {
  /** Bytes read at a time. Default 1 MiB: larger blocks leave the processor's cache, smaller ones cost calls. */
  blockSize?: number;
  /**
   * Lines of more bytes are visited cut to their first `longest`, so that a file without newlines cannot exhaust
   * memory. Default 1 GiB, at least `blockSize`.
   */
  longest?: number;
}

export const BLOCK_SIZE = 1 << 20;
export const LONGEST_VISITED = 1 << 30;

/**
 * Lines standing in a reused block, moved along a view by `advance`. All lines in `[start, end)` are whole;
 * only the last one may lack its newline, either because the range ends there or because it was cut.
 */
export interface LineWindow {
  readonly block: Uint8Array;
  /** The same memory as `block`, with the fastest search for a byte this machine has. */
  readonly finder: Uint8Array;
  readonly start: number;
  readonly end: number;
  /** Where `block[start]` stands in the view. */
  readonly offset: number;
  /** True when the window holds one line cut to `longest` whose newline stands further on. */
  readonly cutTerminated: boolean;
  /** False at the end of the range. */
  advance(): boolean;
}

/** Node's Buffer searches with memchr, several times faster than Uint8Array does; browsers have only the latter. */
export function finderOf(block: Uint8Array): Uint8Array {
  const buffer = globalThis.Buffer;
  return buffer === undefined ? block : buffer.from(block.buffer, block.byteOffset, block.byteLength);
}

/** Fills the whole of `target` or throws: a view that ends early is a file that was shortened meanwhile. */
export function fill(view: ByteView, offset: number, target: Uint8Array): void {
  if (view.readInto(offset, target) === target.length) return;
  throw new JsonlError(
    "shrunk",
    `The bytes at offset ${offset} are gone: the file was shortened while it was read.`,
  );
}
