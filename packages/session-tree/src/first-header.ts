import { type ByteView, forEachLine } from "@espalier/jsonl-stream";
import type { SessionHeader } from "./session-header.ts";
import { readSessionLine } from "./session-line.ts";

/** Bytes read at a time: a header has some hundred, and every log that is opened is asked for it. */
const BLOCK = 4 * 1024;

/**
 * Returns the header of a log: its first usable line. A torn or foreign line before it does not hide it; behind an entry
 * there is none, and the log is only read. For authors of stores: `SessionLog.header`.
 */
export function firstHeader(view: ByteView): SessionHeader | undefined {
  let header: SessionHeader | undefined;
  forEachLine(
    view,
    (block, start, end) => {
      const line = readSessionLine(block.subarray(start, end));
      if (line.is === "header") header = line.header;
      return line.is === "header" || line.is === "entry" ? false : undefined;
    },
    { blockSize: BLOCK },
  );
  return header;
}
