import { setImmediate } from "node:timers/promises";
import type { ByteView } from "@espalier/jsonl-stream";

/** Bytes searched at a time: of those measured the most that memory is not fetched from the system anew for. */
const BLOCK = 64 * 1024;

/** Blocks between two moments in which something else may happen, an abort among it. */
const BREATH = 64;

const LINE_FEED = "\n";

/**
 * Places in a view where a pattern matches: the first of each line, a list for each block that has any. Blocks are
 * searched as latin-1 text, which costs a copy and no decoding; none of a line is held longer than its block.
 *
 * @param pattern matches within one line, on characters that stand for bytes
 * @param longest bytes of the longest match
 */
export async function* matchingLines(
  view: ByteView,
  pattern: RegExp,
  longest: number,
  signal?: AbortSignal,
): AsyncGenerator<number[]> {
  const block = Buffer.allocUnsafe(Math.min(Math.max(BLOCK, 2 * longest), Math.max(1, view.size)));
  // Behind the last match: that line is found, so the search goes on behind its end.
  let passed = 0;
  let isPassingLine = false;
  let blocks = 0;
  for (let offset = 0; offset < view.size; offset += block.length - longest) {
    if (blocks++ % BREATH === 0) {
      if (offset > 0) await setImmediate();
      signal?.throwIfAborted();
    }
    const length = view.readInto(offset, block);
    const text = block.toString("latin1", 0, length);
    const found: number[] = [];
    for (let at = Math.max(0, passed - offset); at < length; ) {
      if (isPassingLine) {
        const lineEnd = text.indexOf(LINE_FEED, at);
        passed = offset + (lineEnd < 0 ? length : lineEnd + 1);
        if (lineEnd < 0) break;
        at = lineEnd + 1;
        isPassingLine = false;
      }
      pattern.lastIndex = at;
      const match = pattern.exec(text);
      if (!match) break;
      found.push(offset + match.index);
      at = match.index;
      isPassingLine = true;
    }
    if (found.length > 0) yield found;
    if (offset + length >= view.size) return;
  }
}
