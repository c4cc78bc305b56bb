import { constants } from "node:fs";
import { JsonlError } from "../jsonl-error.ts";
import { closeFile } from "./close-file.ts";
import type { FileCalls } from "./file-calls.ts";
import { uninterrupted } from "./system-error.ts";
import { writingCall } from "./writing-call.ts";

/** How a whole file is written. */
export interface WholeFileOptions {
  /** Default 0600. */
  mode?: number;
  /** Default: the calls of `node:fs`. */
  calls?: FileCalls;
}

const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

/**
 * Writes a whole file beside `path`, as `<path>.<12 hex digits>.tmp`, and syncs it. Returns its path; when it
 * throws, nothing is left of it. With `isReadBack` each block is found in the file before the next is written.
 */
export function writeDraft(
  path: string,
  chunks: Iterable<Uint8Array>,
  mode: number,
  calls: FileCalls,
  isReadBack = false,
): string {
  const draft = `${path}.${calls.randomName()}.tmp`;
  const fd = writingCall(path, () => calls.openSync(draft, FLAGS, mode));
  try {
    try {
      let end = 0;
      for (const block of inBlocks(chunks)) {
        writeAll(path, fd, block, calls);
        if (isReadBack) assertHolds(path, fd, end, block, calls);
        end += block.length;
      }
      writingCall(path, () => calls.fsyncSync(fd));
    } catch (error) {
      discardDescriptor(fd, calls);
      throw error;
    }
    closeFile(path, fd, calls);
  } catch (error) {
    discard([draft], calls);
    throw error;
  }
  return draft;
}

/** Bytes that are collected before they are written: a call for each line would cost more than its bytes. */
const BLOCK = 1 << 18;

/** The same bytes in larger pieces; each is good until the next is asked for. */
function* inBlocks(chunks: Iterable<Uint8Array>): Generator<Uint8Array, void> {
  let block: Uint8Array | undefined;
  let length = 0;
  for (const chunk of chunks) {
    if (length + chunk.length > BLOCK) {
      if (block) yield block.subarray(0, length);
      length = 0;
    }
    if (chunk.length > BLOCK) yield chunk;
    else {
      block ??= new Uint8Array(BLOCK);
      block.set(chunk, length);
      length += chunk.length;
    }
  }
  if (block && length > 0) yield block.subarray(0, length);
}

/** Removes files after a failure, which says more than another failure here could. */
export function discard(paths: readonly string[], calls: FileCalls): void {
  for (const path of paths) {
    // Twice: a call that failed by chance is no reason to leave a file behind.
    for (let attempt = 0; attempt < 2; attempt += 1) {
      try {
        uninterrupted(() => calls.unlinkSync(path));
        break;
      } catch {
        // Already gone, or not removable: the caller throws what went wrong first.
      }
    }
  }
}

function discardDescriptor(fd: number, calls: FileCalls): void {
  try {
    calls.closeSync(fd);
  } catch {
    // It is gone all the same, and what was written is thrown away.
  }
}

/** Throws `write-failed` where the file does not hold at `position` what was written there. */
function assertHolds(path: string, fd: number, position: number, block: Uint8Array, calls: FileCalls): void {
  const found = new Uint8Array(block.length);
  for (let done = 0; done < found.length; ) {
    const rest = found.length - done;
    const count = writingCall(path, () => calls.readSync(fd, found, done, rest, position + done));
    if (count === 0) break;
    done += count;
  }
  if (Buffer.compare(found, block) === 0) return;
  const message = `What was written for ${path} was not found again; its disk may be damaged. The file is as it was.`;
  throw new JsonlError("write-failed", message);
}

function writeAll(path: string, fd: number, chunk: Uint8Array, calls: FileCalls): void {
  for (let done = 0; done < chunk.length; ) {
    const rest = chunk.length - done;
    const count = writingCall(path, () => calls.writeSync(fd, chunk, done, rest, null));
    // A disk that is filling up takes a part first; taking nothing without an error would go on for ever.
    if (count === 0)
      throw new JsonlError("short-write", `Nothing more fitted into ${path}; make room on its disk.`);
    done += count;
  }
}
