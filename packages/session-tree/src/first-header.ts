import { type ByteView, forEachLine } from "@espalier/jsonl-stream";
import type { SessionHeader } from "./session-header.ts";
import { readLineParts } from "./session-line.ts";

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
      for (const part of readLineParts(block.subarray(start, end))) {
        if (part.is === "header") header = part.header;
        if (part.is === "header" || part.is === "entry") return false;
      }
      return undefined;
    },
    { blockSize: BLOCK },
  );
  return header;
}
