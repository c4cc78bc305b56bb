import { resolve } from "node:path";
import { EspalierError } from "../error.ts";
import { type ByteView, forEachLine, LINE_FEED } from "../line-window.ts";
import { assertOneLine, contentEnd, encodeLines } from "../lines.ts";
import { FileTail, type Span } from "./file-tail.ts";
import {
  Descriptor,
  type FileCalls,
  nodeFileCalls,
  type OpenMode,
  openRegularFile,
  syncFolderOf,
  systemCode,
  tightenFile,
  uninterrupted,
  uninterruptedAsync,
  unreadable,
} from "./files.ts";

/** Options of opening a file. */
export interface AppendFileOptions {
  /** `write` appends and makes whole what a crash left; `read` changes nothing, whatever state the file is in. */
  mode: OpenMode;
  /** Make the file, mode 0600, when there is none (`write` only). Default false. */
  create?: boolean;
  /** Take from everybody but the owner whatever rights they have on the file (`write` only). Default false. */
  tighten?: boolean;
  /** Default: the calls of `node:fs`. */
  calls?: FileCalls;
}

/**
 * A line file that several processes append to at once. All calls but `synced` are synchronous.
 *
 * `append` and `takeIn` first look whether this is still the file that was opened, and throw `removed`, `changed` or
 * `shrunk` if not. `append` has written nothing then; only when another writer interfered does it look once more
 * after its write, and an error of that look leaves open whether the lines are in the file.
 */
export interface AppendFile {
  /** Absolute. */
  readonly path: string;
  readonly mode: OpenMode;
  /** Bytes taken in so far: whole lines. */
  readonly size: number;
  /**
   * Everything up to the last look, with the unterminated line that may begin at `size`: another writer may be busy
   * with it, and as soon as it is whole it is taken in. The view stays valid while the file grows.
   */
  view(): ByteView;
  /**
   * Appends lines by one write and finds them in the file before it returns; a newline is written before them when
   * the last line is torn. `[from, to)` in the result is all that was taken in by this call, own lines included.
   * On an error they do not count as appended, but a first part of them may be in the file.
   *
   * @param lines - lines as `encodeLines` gives them; with no bytes at all this is `takeIn`
   * @throws EspalierError `short-write`, `write-failed`, `read-only`, `sync-failed`, `closed`, `unreadable`
   */
  append(lines: Uint8Array): Appended;
  /** Takes in the lines that became whole since the last look; null when there are none. */
  takeIn(): Span | null;
  /**
   * Returns when everything appended is on disk: fdatasync, and a sync of the folder when this opening made the file.
   *
   * @throws EspalierError `sync-failed`, from then on at each `append` and `sync`: the system may have dropped the data
   *   and would report success the next time
   */
  sync(): void;
  /**
   * As `sync`, without stopping the process meanwhile: one fdatasync on another thread serves everybody who waits.
   * Appends may go on; a promise covers the appends before the call.
   */
  synced(): Promise<void>;
  /** Everything else fails with `closed` from then on; who waits for `synced` is still served. */
  close(): void;
}

/**
 * Opens a line file, to follow it or to append to it. Links are not followed, and only a file of our own is written to.
 *
 * @throws EspalierError `not-found`, `not-a-file`, `not-ours`, `read-only`, `unreadable`
 */
export function openAppendFile(path: string, options: AppendFileOptions): AppendFile {
  const absolute = resolve(path);
  const { mode, create = false, tighten = false, calls = nodeFileCalls } = options;
  const { fd, facts, created } = openRegularFile(absolute, mode, create && mode === "write", calls);
  const descriptor = new Descriptor(absolute, fd, calls);
  const tail = firstLook(descriptor, () => {
    if (tighten && mode === "write") tightenFile(descriptor, facts);
    return new FileTail(descriptor, facts);
  });
  let folderIsSynced = !created;
  let syncFailure: EspalierError | undefined;

  const failed = (error: unknown): EspalierError => {
    const message = `${absolute} could not be synced; close it, open it again, and append again what is missing.`;
    syncFailure ??= new EspalierError("sync-failed", message, { cause: error });
    return syncFailure;
  };
  const settle = (): void => {
    if (!folderIsSynced) syncFolderOf(absolute, calls);
    folderIsSynced = true;
  };
  const group = new GroupSync(async () => {
    if (syncFailure !== undefined) throw syncFailure;
    try {
      await uninterruptedAsync(() => calls.fdatasync(fd));
      settle();
      if (descriptor.isOpen) tail.noteTime();
    } catch (error) {
      throw failed(error);
    }
  });

  const assertWritable = (): void => {
    descriptor.assertOpen();
    if (mode === "read")
      throw new EspalierError("read-only", `${absolute} was opened for reading; open it for writing.`);
    if (syncFailure !== undefined) throw syncFailure;
  };

  return {
    path: absolute,
    mode,
    get size() {
      return tail.size;
    },
    view: () => descriptor.view(tail.end),
    append(lines) {
      assertWritable();
      return appendWhole(descriptor, tail, lines);
    },
    takeIn() {
      descriptor.assertOpen();
      return tail.look();
    },
    sync() {
      assertWritable();
      try {
        uninterrupted(() => calls.fdatasyncSync(fd));
        settle();
      } catch (error) {
        throw failed(error);
      }
    },
    async synced() {
      assertWritable();
      const release = descriptor.hold();
      try {
        await group.wait();
      } finally {
        release();
      }
    },
    close: () => descriptor.close(),
  };
}

/** A file that cannot be read at its first look is not left open. */
function firstLook<T>(descriptor: Descriptor, look: () => T): T {
  try {
    return look();
  } catch (error) {
    descriptor.close();
    throw error;
  }
}

/** Range of appended lines in the file. */
export interface Appended extends Span {
  /** Offset of the first own line. */
  offset: number;
  /** Bytes of the own lines, the last newline included. */
  length: number;
}

/** Most repeats of writing lines that were not found. Each time another writer must have torn its line. */
const REPEATS = 4;

/**
 * One append: look, write once, find the lines. They are where the file ended, or behind what another writer
 * appended since the look; glued to a line which that writer tore, they are written again behind a newline.
 */
function appendWhole(descriptor: Descriptor, tail: FileTail, lines: Uint8Array): Appended {
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
    if (retryRead(() => holdsLines(descriptor, expected, own))) {
      tail.advanceTo(expected + length, own);
      return { offset: expected, length, from, to: tail.size };
    }
    const offset = retryRead(() => {
      tail.look();
      return findLines(descriptor, { from: before, to: tail.size }, own);
    });
    if (offset >= 0) return { offset, length, from, to: tail.size };
  }
  const message = `Lines written ${REPEATS + 1} times to ${descriptor.path} are not in it; its writers must share a machine.`;
  throw new EspalierError("write-failed", message);
}

/** Retries a read that failed. */
function retryRead<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof EspalierError) || error.code !== "unreadable") throw error;
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
    throw new EspalierError(
      "write-failed",
      `${path} could not be written (${code}); append again when it can.`,
      { cause: error },
    );
  }
  if (count === payload.length) return;
  const message = `Only ${count} of ${payload.length} bytes fitted into ${path}; make room and append again.`;
  throw new EspalierError("short-write", message);
}

/** Read into at each append and not kept: a buffer each time would cost more than the reading. */
const readBuffer = Buffer.allocUnsafeSlow(1 << 16);

/** True when `lines` are at `position`, and before them a newline or nothing. */
function holdsLines(descriptor: Descriptor, position: number, lines: Uint8Array): boolean {
  // Begins one byte early, at the newline before.
  for (let done = -Math.min(position, 1); done < lines.length; ) {
    const found = readBuffer.subarray(0, Math.min(readBuffer.length, lines.length - done));
    if (descriptor.readInto(position + done, found) < found.length) return false;
    if (done < 0 && found[0] !== LINE_FEED) return false;
    const from = Math.max(done, 0);
    if (found.compare(lines, from, done + found.length, from - done) !== 0) return false;
    done += found.length;
  }
  return true;
}

/** Returns the offset of `lines` in a span of whole lines; -1 when they are not there as lines of their own. */
function findLines(descriptor: Descriptor, { from, to }: Span, lines: Uint8Array): number {
  const first = lines.subarray(0, contentEnd(lines, 0, lines.indexOf(LINE_FEED)));
  let found = -1;
  const visit = (block: Uint8Array, start: number, end: number, offset: number): undefined | false => {
    if (Buffer.compare(block.subarray(start, end), first) !== 0) return undefined;
    if (!holdsLines(descriptor, offset, lines)) return undefined;
    found = offset;
    return false;
  };
  forEachLine(descriptor.view(to), visit, { from, to });
  return found;
}

/**
 * Lets all who wait for a sync share one: whoever asks while one runs waits for the next, which begins after what they
 * wrote. A round begins one turn of the event loop late, so that what is written in the same turn is in it.
 */
class GroupSync {
  readonly #sync: () => Promise<void>;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  /** True until the round that was promised has begun: what is written until then is in it. */
  #gathering = false;

  constructor(sync: () => Promise<void>) {
    this.#sync = sync;
  }

  /** Resolves when a sync that began after this call has ended, and rejects as that one does. */
  wait(): Promise<void> {
    if (this.#running === undefined) return this.#begin();
    if (this.#gathering) return this.#running;
    this.#next ??= this.#running.then(
      () => this.#begin(),
      () => this.#begin(),
    );
    return this.#next;
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    this.#gathering = true;
    const round = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => {
        this.#gathering = false;
        return this.#sync();
      })
      .finally(() => {
        if (this.#running === round) this.#running = undefined;
      });
    this.#running = round;
    return round;
  }
}

/** Written into at each append: memory of its own for each line would cost more than the encoding. */
const writeBuffer = Buffer.allocUnsafeSlow(1 << 18);

/**
 * As `encodeLines`, for lines that are written at once: the bytes are in memory that the next call reuses.
 *
 * @throws EspalierError `invalid-entry` when a line holds a newline
 */
export function encodeBriefly(lines: readonly string[]): Uint8Array {
  let most = lines.length;
  // A UTF-16 unit takes at most three bytes: what may not fit is rare, and need not be measured.
  for (const line of lines) most += line.length * 3;
  if (most > writeBuffer.length) return encodeLines(lines);
  let end = 0;
  for (const line of lines) {
    assertOneLine(line);
    end += writeBuffer.write(line, end);
    writeBuffer[end++] = LINE_FEED;
  }
  // A plain array: what a Buffer calls a slice is no copy.
  return new Uint8Array(writeBuffer.buffer, 0, end);
}
