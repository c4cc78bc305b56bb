import { forEachLine } from "../for-each-line.ts";
import { JsonlError } from "../jsonl-error.ts";
import { LINE_FEED } from "../line-window.ts";
import type { Appended } from "./append-file.ts";
import type { Descriptor } from "./descriptor.ts";
import type { FileTail } from "./file-tail.ts";
import { systemCode, uninterrupted } from "./system-error.ts";

/** How often lines that are not found clean are written again. */
const REPEATS = 4;

/** One append: look, write once, find the lines where they should be or anywhere clean, else write them again. */
export function appendWhole(descriptor: Descriptor, tail: FileTail, lines: Uint8Array): Appended {
  const from = tail.size;
  tail.look();
  const own = terminated(lines);
  if (own.length === 0) return { offset: tail.size, length: 0, from, to: tail.size };
  for (let repeat = 0; repeat <= REPEATS; repeat += 1) {
    const payload = tail.clean && repeat === 0 ? own : afterNewline(own);
    const expected = tail.end + payload.length - own.length;
    writeOnce(descriptor, payload);
    if (standsAt(descriptor, expected, own)) {
      tail.advanceTo(expected + own.length);
      return { offset: expected, length: own.length, from, to: tail.size };
    }
    const searched = tail.size;
    tail.look();
    const offset = find(descriptor, searched, tail.size, own);
    if (offset >= 0) return { offset, length: own.length, from, to: tail.size };
  }
  const message = `Lines written to ${descriptor.path} were not found in it, ${REPEATS + 1} times; do its writers share one machine?`;
  throw new JsonlError("write-failed", message);
}

function terminated(lines: Uint8Array): Uint8Array {
  if (lines.length === 0 || lines[lines.length - 1] === LINE_FEED) return lines;
  const whole = new Uint8Array(lines.length + 1);
  whole.set(lines);
  whole[lines.length] = LINE_FEED;
  return whole;
}

function afterNewline(lines: Uint8Array): Uint8Array {
  const payload = new Uint8Array(lines.length + 1);
  payload[0] = LINE_FEED;
  payload.set(lines, 1);
  return payload;
}

function writeOnce({ path, fd, calls }: Descriptor, payload: Uint8Array): void {
  let count: number;
  try {
    count = uninterrupted(() => calls.writeSync(fd, payload, 0, payload.length, null));
  } catch (error) {
    throw new JsonlError(
      "write-failed",
      `${path} could not be written (${systemCode(error) ?? "see cause"}).`,
      error,
    );
  }
  if (count === payload.length) return;
  const message = `Only ${count} of ${payload.length} bytes were written to ${path}; make room on the disk and append again.`;
  throw new JsonlError("short-write", message);
}

/** True when `own` stands at `offset` and the byte before it ends a line. */
function standsAt(descriptor: Descriptor, offset: number, own: Uint8Array): boolean {
  const before = offset === 0 ? 0 : 1;
  const found = Buffer.allocUnsafe(own.length + before);
  if (descriptor.readInto(offset - before, found) < found.length) return false;
  return (before === 0 || found[0] === LINE_FEED) && found.compare(own, 0, own.length, before) === 0;
}

/** Where `own` begins among the whole lines of `[from, to)`; -1 if nowhere. */
function find(descriptor: Descriptor, from: number, to: number, own: Uint8Array): number {
  let found = -1;
  forEachLine(
    descriptor.view(to),
    (block, start, end, offset) => {
      const first = own.subarray(0, Math.min(end - start, own.length));
      const part = block.subarray(start, end);
      void part;
      void first;
      if (offset + own.length <= to && standsAt(descriptor, offset, own)) found = offset;
      return found < 0 ? undefined : false;
    },
    { from, to },
  );
  return found;
}
