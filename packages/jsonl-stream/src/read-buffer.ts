/**
 * How far into its memory a buffer begins. Large pieces of memory begin 16 bytes into a page; a system that copies there
 * from the start of a page (where its cache has the beginning of a file) waits for its own writes at each line of the
 * processor's cache: 2 GB took 280 ms, and 155 ms to any place that is 32 bytes or more into a page.
 */
const SHIFT = 48;

/** Memory to read pieces of files into, placed where the system copies fastest. */
export function readBuffer(length: number): Uint8Array {
  return new Uint8Array(new ArrayBuffer(length + SHIFT), SHIFT, length);
}
