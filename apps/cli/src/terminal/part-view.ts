import type { ByteView } from "@espalier/jsonl-stream";

const LINE_FEED = 10;

/** Bytes that are looked through at once for the end of a line. */
const BLOCK = 64 * 1024;

/** A part of a view, as a view of its own. */
export function partView(view: ByteView, from: number, to: number): ByteView {
  const size = to - from;
  const within = (offset: number, length: number) => Math.max(0, Math.min(length, size - offset));
  return {
    size,
    read: (offset, length) => view.read(from + offset, within(offset, length)),
    readInto: (offset, target) =>
      view.readInto(from + offset, target.subarray(0, within(offset, target.length))),
  };
}

/** Where the first line begins behind `at`; the end of the view when none does. */
export function lineBehind(view: ByteView, at: number): number {
  for (let offset = at; offset < view.size; offset += BLOCK) {
    const found = view.read(offset, BLOCK).indexOf(LINE_FEED);
    if (found >= 0) return offset + found + 1;
  }
  return view.size;
}
