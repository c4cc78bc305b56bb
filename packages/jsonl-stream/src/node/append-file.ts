import { resolve } from "node:path";
import { EspalierError } from "../error.ts";
import { assertOneLine, contentEnd, encodeLines } from "../lines.ts";
import { type ByteView, forEachLine, LINE_FEED } from "../scan.ts";
import {
  Descriptor,
  type FileCalls,
  type FileFacts,
  groupSync,
  isSameFile,
  nodeFileCalls,
  type OpenMode,
  openRegularFile,
  systemCode,
  tightenFile,
  uninterrupted,
  uninterruptedAsync,
  unreadable,
} from "./files.ts";

/** Options of opening a file. */
export interface AppendFileOptions {
  /** Mode. `write` can append. `read` changes nothing, even in a damaged file. */
  mode: OpenMode;
  /** True to remove all permissions on the file except the owner's (`write` only). Default false. */
  tighten?: boolean;
  /** Calls to the file system. Default: those of `node:fs`. */
  calls?: FileCalls;
}

/**
 * A file of lines to which several processes append at once. All calls except `synced` are synchronous.
 *
 * `append` and `takeIn` first check that the file is still the one that was opened, and throw `removed`, `changed` or
 * `shrunk` if not. `append` has written nothing then. Only when another writer interferes, `append` checks a second
 * time after its write; after an error of that check it is not known whether the lines are in the file.
 */
export interface AppendFile {
  /** Absolute path. */
  readonly path: string;
  /**
   * Returns the file up to its end at the last check. It includes an incomplete last line, which another writer
   * may be writing; the line counts as soon as it is complete. The view stays valid while the file grows.
   */
  view(): ByteView;
  /**
   * Appends lines by one write, and finds them in the file before it returns. Writes a newline before them when the
   * last line is torn. `[from, to)` in the result is everything that this call read or wrote. After an error
   * the lines do not count as appended, but the first part of them can be in the file.
   *
   * @param lines - lines from `encodeLines`; with no bytes, the call is the same as `takeIn`
   * @throws EspalierError `short-write`, `write-failed`, `unreadable`; `removed`, `changed`, `shrunk` (see above);
   * `read-only`, `closed`, and `sync-failed` after a failed sync, with nothing written
   */
  append(lines: Uint8Array): Appended;
  /** Reads the lines that were completed since the last check of the file; returns null when there are none. */
  takeIn(): Span | null;
  /**
   * Returns when everything appended is on disk, by an fdatasync.
   *
   * @throws EspalierError `sync-failed`, and again at each later `append`, `sync` and `synced`: the system may have
   * dropped the data and would report success the next time; `read-only`, `closed`
   */
  sync(): void;
  /**
   * Same as `sync`, without blocking the process: callers that wait at the same time share one fdatasync on another
   * thread. Appends can continue; a promise covers the appends before the call.
   */
  synced(): Promise<void>;
  /** Closes the file. All later calls fail with `closed`, but callers that wait for `synced` get their results. */
  close(): void;
}

/**
 * Opens a file of lines, to read new lines or to append. Does not follow links, and writes only to files of the current
 * user.
 *
 * @throws EspalierError `not-found`, `not-a-file`, `not-ours`, `read-only`, `unreadable`
 */
export function openAppendFile(path: string, options: AppendFileOptions): AppendFile {
  const absolute = resolve(path);
  const { mode, tighten = false, calls = nodeFileCalls } = options;
  const { fd, facts } = openRegularFile(absolute, mode, calls);
  const descriptor = new Descriptor(absolute, fd, calls);
  let tail: FileTail;
  try {
    if (tighten && mode === "write") tightenFile(descriptor, facts);
    tail = new FileTail(descriptor, facts);
  } catch (error) {
    // A file whose first read fails is closed.
    descriptor.close();
    throw error;
  }
  let syncFailure: EspalierError | undefined;

  const failed = (error: unknown): EspalierError => {
    const message = `${absolute} could not be synced; close it, open it again, and append the missing entries again.`;
    syncFailure ??= new EspalierError("sync-failed", message, { cause: error });
    return syncFailure;
  };
  const groupSynced = groupSync(async () => {
    if (syncFailure !== undefined) throw syncFailure;
    try {
      await uninterruptedAsync(() => calls.fdatasync(fd));
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

/** A range of whole lines in a file: the bytes `[from, to)`. */
export interface Span {
  /** Offset of the first byte. */
  from: number;
  /** Offset after the last byte. */
  to: number;
}

/** Position of appended lines in the file. */
export interface Appended extends Span {
  /** Offset of the first line of this append. */
  offset: number;
  /** Bytes of the lines of this append, including the last newline. */
  length: number;
}

/**
 * Maximum number of repeated writes for lines that were not found. Each repetition means that another writer tore its
 * line.
 */
const REPEATS = 4;

/**
 * Appends once: checks the file, writes, and finds the lines. They are at the old end of the file, or after lines that
 * another writer appended since the check. If that writer tore its last line, the lines are glued to it and are
 * written again after a newline.
 */
function appendWhole(descriptor: Descriptor, tail: FileTail, lines: Uint8Array): Appended {
  const from = tail.size;
  const { length } = lines;
  tail.look();
  if (length === 0) return { offset: tail.size, length, from, to: tail.size };
  for (let repeat = 0; repeat <= REPEATS; repeat += 1) {
    const clean = tail.clean && repeat === 0;
    const before = tail.size;
    const expected = clean ? tail.end : tail.end + 1;
    tail.writes();
    writeOnce(descriptor, clean ? lines : Buffer.concat([NEWLINE, lines]));
    // Retried when a call fails: the lines are in the file, and without this read they would not be counted.
    if (retryRead(() => holdsLines(descriptor, expected, lines))) {
      tail.advanceTo(expected + length, lines);
      return { offset: expected, length, from, to: tail.size };
    }
    const offset = retryRead(() => {
      tail.look();
      return findLines(descriptor, { from: before, to: tail.size }, lines);
    });
    if (offset >= 0) return { offset, length, from, to: tail.size };
  }
  const message = `Lines written ${REPEATS + 1} times to ${descriptor.path} are not in it; all its writers must be on one machine.`;
  throw new EspalierError("write-failed", message);
}

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

/** Reused by each append: a new buffer each time would cost more than reading. */
const readBuffer = Buffer.allocUnsafeSlow(1 << 16);

/** Returns whether `lines` are at `position`, with a newline or nothing before them. */
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

/** Returns the offset of `lines` in a span of whole lines; -1 when they are not there as whole lines. */
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

/** Bytes that are searched first for the last newline. Nearly every file ends with one. */
const FIRST_BLOCK = 1 << 9;

/** Bytes searched at once in a file that ends with a torn or incomplete line. */
const BLOCK = 1 << 16;

/** Size of the samples of a file's end, beginning and middle, by which the file is recognized, in bytes. */
const SAMPLE = 512;

/**
 * Milliseconds after an append of this process. Later, a file that has not grown is compared with the samples, because
 * the time of its last write is not known.
 */
const QUIET_MS = 1;

/** Copy of the bytes at an offset, to notice a later change of the file. */
interface Sample {
  offset: number;
  bytes: Uint8Array;
}

/** End of a growing file: of its whole lines, and of the file itself. */
class FileTail {
  /** End of the whole lines that were read. */
  size = 0;
  /** End of the file at the last check. From `size` to here is an incomplete line. */
  end = 0;
  readonly #descriptor: Descriptor;
  readonly #identity: FileFacts;
  /** Bytes before `size`, as they were when it was set. */
  #mark: Uint8Array = new Uint8Array();
  readonly #samples: readonly Sample[];
  /** Time of the last write by others; undefined after an append of this process. */
  #time: bigint | undefined;
  /** Time of the last append of this process, by its clock, in milliseconds. */
  #wroteAt = 0;

  constructor(descriptor: Descriptor, facts: FileFacts) {
    this.#descriptor = descriptor;
    this.#identity = facts;
    this.#time = facts.mtimeNs;
    const end = Number(facts.size);
    this.#moveTo(end);
    // A short file is covered by the sample of its end.
    const places = end <= SAMPLE ? [] : end <= 2 * SAMPLE ? [0] : [0, end >> 1];
    this.#samples = places.map((offset) => ({
      offset,
      bytes: this.#read(offset, Math.min(SAMPLE, end - offset)),
    }));
  }

  /** Returns whether appended bytes would begin a line. */
  get clean(): boolean {
    return this.size === this.end;
  }

  /**
   * Reads the lines that were completed since the last check; returns null when there are none.
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
    // A changed time alone proves nothing: while another process appends, the time changes before the length.
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

  /** Counts everything up to `offset` as read, where `lines` were found to end. */
  advanceTo(offset: number, lines: Uint8Array): void {
    this.size = offset;
    this.end = offset;
    this.#mark = lines.slice(-SAMPLE);
  }

  /** Call before an append. After it, the file's time no longer shows writes of others. */
  writes(): void {
    this.#time = undefined;
    this.#wroteAt = performance.now();
  }

  #isAsItWas(): boolean {
    const isSame = ({ offset, bytes }: Sample) =>
      Buffer.compare(this.#read(offset, bytes.length), bytes) === 0;
    return (
      isSame({ offset: this.size - this.#mark.length, bytes: this.#mark }) && this.#samples.every(isSame)
    );
  }

  /**
   * Returns the facts of the file at the path. One call gives its identity and length, because a check is half of the
   * cost of a small append.
   */
  #facts(): FileFacts {
    const { path, calls } = this.#descriptor;
    let there: FileFacts | undefined;
    try {
      there = uninterrupted(() => calls.lstatSync(path));
    } catch (error) {
      throw unreadable(path, "cannot be accessed; check its folder", error);
    }
    if (there === undefined) {
      throw new EspalierError(
        "removed",
        `${path} was removed or renamed; put it back, or open it at its new path.`,
      );
    }
    if (!isSameFile(there, this.#identity)) {
      throw new EspalierError("changed", `Another file was put at ${path}; open it again.`);
    }
    return there;
  }

  #moveTo(end: number): void {
    // The part that was searched before has no newline, unless the torn line was cut off in the meantime.
    const searched = end >= this.end ? this.end : this.size;
    const last = this.#lastLineFeed(searched, end);
    // Reads before any field changes, because reading can fail.
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

  /** Returns `length` bytes from `offset` on, or as many as can be read. */
  #read(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    return bytes.subarray(0, this.#descriptor.readInto(offset, bytes));
  }
}

/** Reused by each append: new memory for each line would cost more than encoding. */
const writeBuffer = Buffer.allocUnsafeSlow(1 << 18);

/**
 * Same as `encodeLines`, for lines that are written at once: the next call reuses the memory of the result.
 *
 * @throws EspalierError `invalid-entry` when a line contains a newline
 */
export function encodeBriefly(lines: readonly string[]): Uint8Array {
  let most = lines.length;
  // A UTF-16 unit takes at most three bytes. Lines that may not fit are rare, so they are not measured.
  for (const line of lines) most += line.length * 3;
  if (most > writeBuffer.length) return encodeLines(lines);
  let end = 0;
  for (const line of lines) {
    assertOneLine(line);
    end += writeBuffer.write(line, end);
    writeBuffer[end++] = LINE_FEED;
  }
  // A Uint8Array, because `slice` of a Buffer does not copy.
  return new Uint8Array(writeBuffer.buffer, 0, end);
}
