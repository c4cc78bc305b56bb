import { resolve } from "node:path";
import { EspalierError } from "../error.ts";
import { type ByteView, forEachLine, LINE_FEED } from "../line-window.ts";
import { assertOneLine, contentEnd, encodeLines } from "../lines.ts";
import {
  Descriptor,
  type FileCalls,
  type FileFacts,
  groupSync,
  isSameFile,
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
  /** `write` appends and completes or removes a torn last line; `read` changes nothing, even in a damaged file. */
  mode: OpenMode;
  /** Make the file, mode 0600, when there is none (`write` only). Default false. */
  create?: boolean;
  /** Removes all permissions on the file but the owner's (`write` only). Default false. */
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
  let tail: FileTail;
  try {
    if (tighten && mode === "write") tightenFile(descriptor, facts);
    tail = new FileTail(descriptor, facts);
  } catch (error) {
    // A file that cannot be read at its first look is not left open.
    descriptor.close();
    throw error;
  }
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
  const groupSynced = groupSync(async () => {
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
        await groupSynced();
      } finally {
        release();
      }
    },
    close: () => descriptor.close(),
  };
}

/** Bytes `[from, to)` of a file: whole lines. */
export interface Span {
  /** The first byte. */
  from: number;
  /** The byte behind the last. */
  to: number;
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
  const isWhole = lines.length === 0 || lines[lines.length - 1] === LINE_FEED;
  const own = isWhole ? lines : new Uint8Array(Buffer.concat([lines, NEWLINE]));
  const { length } = own;
  tail.look();
  if (length === 0) return { offset: tail.size, length, from, to: tail.size };
  for (let repeat = 0; repeat <= REPEATS; repeat += 1) {
    const clean = tail.clean && repeat === 0;
    const before = tail.size;
    const expected = clean ? tail.end : tail.end + 1;
    tail.writes();
    writeOnce(descriptor, clean ? own : Buffer.concat([NEWLINE, own]));
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

const NEWLINE = Uint8Array.of(LINE_FEED);

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

/** Bytes searched for the last newline at first: nearly every file ends with one. */
const FIRST_BLOCK = 1 << 9;

/** Bytes searched at a time where a file ends with a line that is torn, or not yet whole. */
const BLOCK = 1 << 16;

/** Bytes that are remembered of the end, of the beginning and of the middle, to know the file again. */
const SAMPLE = 512;

/** Milliseconds without an own write after which a file that has not grown is compared, since its time is not known. */
const QUIET_MS = 1;

/** Bytes as they were somewhere in the file. */
interface Sample {
  offset: number;
  bytes: Uint8Array;
}

/** End of a growing file: of its whole lines, and of the file itself. */
class FileTail {
  /** End of the whole lines that were taken in. */
  size = 0;
  /** End of the file at the last look; from `size` to here is an unterminated line. */
  end = 0;
  readonly #descriptor: Descriptor;
  readonly #identity: FileFacts;
  /** The last bytes before `size`, as they were when it was set. */
  #mark: Uint8Array = new Uint8Array();
  readonly #samples: readonly Sample[];
  /** Time of the last write, as long as only others can have written since; undefined after an own write. */
  #time: bigint | undefined;
  /** Time of the own write, by the clock of the process, in milliseconds. */
  #wroteAt = 0;

  constructor(descriptor: Descriptor, facts: FileFacts) {
    this.#descriptor = descriptor;
    this.#identity = facts;
    this.#time = facts.mtimeNs;
    const end = Number(facts.size);
    this.#moveTo(end);
    // A file that is not longer than the end that is remembered needs no more.
    const places = end <= SAMPLE ? [] : end <= 2 * SAMPLE ? [0] : [0, end >> 1];
    this.#samples = places.map((offset) => ({
      offset,
      bytes: this.#read(offset, Math.min(SAMPLE, end - offset)),
    }));
  }

  /** True when what is appended now begins a line. */
  get clean(): boolean {
    return this.size === this.end;
  }

  /**
   * Takes in the lines that became whole since the last look; null when there are none.
   *
   * @throws EspalierError `removed`, `changed` or `shrunk` when this is no longer the file that was opened
   */
  look(): Span | null {
    const { path } = this.#descriptor;
    const from = this.size;
    const there = this.#facts();
    const end = Number(there.size);
    if (end < from) {
      throw new EspalierError(
        "shrunk",
        `${path} was shortened to ${end} bytes; restore it, or open it again.`,
      );
    }
    // A time that moved is no proof: it moves before the length does while another process appends.
    const mayBeRewritten =
      end !== this.end ||
      (this.#time === undefined
        ? performance.now() - this.#wroteAt > QUIET_MS
        : there.mtimeNs !== this.#time);
    if (mayBeRewritten && !this.#isAsItWas()) {
      throw new EspalierError("changed", `${path} was rewritten in place; open it again.`);
    }
    this.#moveTo(end);
    this.#time = there.mtimeNs;
    return this.size > from ? { from, to: this.size } : null;
  }

  /** Takes in everything up to `offset`, where `lines` end that were found there. */
  advanceTo(offset: number, lines: Uint8Array): void {
    this.size = offset;
    this.end = offset;
    this.#mark = lines.slice(-SAMPLE);
  }

  /** Call before an own write; after it, the file's time no longer shows writes of others. */
  writes(): void {
    this.#time = undefined;
    this.#wroteAt = performance.now();
  }

  /** Remembers the time of the file; for when that costs nothing beside what is done anyway. */
  noteTime(): void {
    const { fd, calls } = this.#descriptor;
    try {
      const { size, mtimeNs } = uninterrupted(() => calls.fstatSync(fd));
      if (Number(size) === this.end) this.#time = mtimeNs;
    } catch {
      // Where the time is not known, the next look compares.
    }
  }

  #isAsItWas(): boolean {
    const isSame = ({ offset, bytes }: Sample) =>
      Buffer.compare(this.#read(offset, bytes.length), bytes) === 0;
    return (
      isSame({ offset: this.size - this.#mark.length, bytes: this.#mark }) && this.#samples.every(isSame)
    );
  }

  /** One call returns the identity and the length of the file at the path: a look is half of what a small append costs. */
  #facts(): FileFacts {
    const { path, calls } = this.#descriptor;
    let there: FileFacts | undefined;
    try {
      there = uninterrupted(() => calls.lstatSync(path));
    } catch (error) {
      throw unreadable(path, "cannot be looked at; check its folder", error);
    }
    if (there === undefined) {
      throw new EspalierError(
        "removed",
        `${path} was removed or renamed; put it back, or open it where it is now.`,
      );
    }
    if (!isSameFile(there, this.#identity)) {
      throw new EspalierError("changed", `Another file was put at ${path}; open it again.`);
    }
    return there;
  }

  #moveTo(end: number): void {
    // What was looked at before holds no newline, unless the torn line was cut off meanwhile.
    const searched = end >= this.end ? this.end : this.size;
    const last = this.#lastLineFeed(searched, end);
    // Reading may fail, and then nothing has moved.
    const length = Math.min(SAMPLE, last + 1);
    if (last >= 0 && last + 1 !== this.size) this.#mark = this.#read(last + 1 - length, length);
    if (last >= 0) this.size = last + 1;
    this.end = end;
  }

  #lastLineFeed(from: number, to: number): number {
    let block = Buffer.allocUnsafe(Math.min(FIRST_BLOCK, to - from));
    for (let stop = to; stop > from; ) {
      const start = Math.max(from, stop - block.length);
      const count = this.#descriptor.readInto(start, block.subarray(0, stop - start));
      const found = block.subarray(0, count).lastIndexOf(LINE_FEED);
      if (found >= 0) return start + found;
      stop = start;
      if (block.length < BLOCK) block = Buffer.allocUnsafe(Math.min(BLOCK, stop - from));
    }
    return -1;
  }

  /** The `length` bytes from `offset` on, or as many as can be read. */
  #read(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    return bytes.subarray(0, this.#descriptor.readInto(offset, bytes));
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
