import { JsonlError } from "../jsonl-error.ts";
import { LINE_FEED } from "../line-window.ts";
import { type Descriptor, unreadable } from "./descriptor.ts";
import type { FileTail, Span } from "./file-tail.ts";
import { findLines, holdsLines } from "./read-back.ts";
import { systemCode, uninterrupted } from "./system-error.ts";

/** Where appended lines stand. */
export interface Appended extends Span {
  /** Where the first own line begins. */
  offset: number;
  /** Bytes of the own lines, the last newline included. */
  length: number;
}

/** How often lines that were not found are written again. Each time another writer must have torn its line. */
const REPEATS = 4;

/**
 * One append: look, write once, find the lines. They stand where the file ended, or behind what another writer
 * appended since the look; glued to a line which that writer tore, they are written again behind a newline.
 */
export function appendWhole(descriptor: Descriptor, tail: FileTail, lines: Uint8Array): Appended {
  const from = tail.size;
  const own = withNewline(lines);
  const { length } = own;
  tail.look();
  if (length === 0) return { offset: tail.size, length, from, to: tail.size };
  for (let repeat = 0; repeat <= REPEATS; repeat += 1) {
    const clean = tail.clean && repeat === 0;
    const before = tail.size;
    const expected = clean ? tail.end : tail.end + 1;
    tail.writes();
    writeOnce(descriptor, clean ? own : behindNewline(own));
    // Once more where a call failed: they are in the file, and to know it now is to count what is there.
    if (persistently(() => holdsLines(descriptor, expected, own))) {
      tail.advanceTo(expected + length, own);
      return { offset: expected, length, from, to: tail.size };
    }
    const offset = persistently(() => {
      tail.look();
      return findLines(descriptor, { from: before, to: tail.size }, own);
    });
    if (offset >= 0) return { offset, length, from, to: tail.size };
  }
  const message = `Lines written ${REPEATS + 1} times to ${descriptor.path} are not in it; its writers must share a machine.`;
  throw new JsonlError("write-failed", message);
}

/** Reads again what could not be read. */
function persistently<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof JsonlError) || error.code !== "unreadable") throw error;
    return read();
  }
}

function withNewline(lines: Uint8Array): Uint8Array {
  if (lines.length === 0 || lines[lines.length - 1] === LINE_FEED) return lines;
  const whole = new Uint8Array(lines.length + 1);
  whole.set(lines);
  whole[lines.length] = LINE_FEED;
  return whole;
}

function behindNewline(lines: Uint8Array): Uint8Array {
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
    const code = systemCode(error) ?? "see cause";
    if (code === "ESTALE") throw unreadable(path, "cannot be written", error);
    throw new JsonlError(
      "write-failed",
      `${path} could not be written (${code}); append again when it can.`,
      error,
    );
  }
  if (count === payload.length) return;
  const message = `Only ${count} of ${payload.length} bytes fitted into ${path}; make room and append again.`;
  throw new JsonlError("short-write", message);
}
