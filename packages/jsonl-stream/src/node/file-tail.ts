import { EspalierError } from "../error.ts";
import { LINE_FEED } from "../line-window.ts";
import { type Descriptor, type FileFacts, isSameFile, uninterrupted, unreadable } from "./files.ts";

/** Bytes `[from, to)` of a file: whole lines. */
export interface Span {
  /** The first byte. */
  from: number;
  /** The byte behind the last. */
  to: number;
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
export class FileTail {
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
  /** Of the process, in milliseconds. */
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
    if ((end !== this.end || this.#maybeRewritten(there)) && !this.#isAsItWas()) {
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

  /** To be called before an own write, after which the time of the file says nothing of others. */
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

  /**
   * True where a file that has the length it had may hold something else. A time that moved is no proof: it moves before
   * the length does while another process appends.
   */
  #maybeRewritten({ mtimeNs }: FileFacts): boolean {
    if (this.#time === undefined) return performance.now() - this.#wroteAt > QUIET_MS;
    return mtimeNs !== this.#time;
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
