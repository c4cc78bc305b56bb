import { JsonlError } from "../jsonl-error.ts";
import { LINE_FEED } from "../line-window.ts";
import type { Descriptor } from "./descriptor.ts";
import type { FileFacts } from "./file-calls.ts";
import { isSameFile } from "./file-kind.ts";
import { uninterrupted } from "./system-error.ts";

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

/** Bytes before the end that are remembered, to know the file again: more than the end of any two entries shares. */
const MARK = 32;

/** What is known of the end of a growing file: where its whole lines end, and where the file does. */
export class FileTail {
  /** Where the whole lines end that were taken in. */
  size = 0;
  /** Where the file ended at the last look; from `size` to here stands an unterminated line. */
  end = 0;
  readonly #descriptor: Descriptor;
  readonly #identity: FileFacts;
  /** The last bytes before `size`, as they were when it was set. */
  #mark: Uint8Array = new Uint8Array();

  constructor(descriptor: Descriptor, facts: FileFacts) {
    this.#descriptor = descriptor;
    this.#identity = facts;
    this.#moveTo(Number(facts.size));
  }

  /** True when what is appended now begins a line. */
  get clean(): boolean {
    return this.size === this.end;
  }

  /**
   * Takes in the lines that became whole since the last look; null when there are none.
   *
   * @throws JsonlError `removed`, `changed` or `shrunk` when this is no longer the file that was opened
   */
  look(): Span | null {
    const { path } = this.#descriptor;
    const from = this.size;
    const end = this.#currentEnd();
    if (end < from) {
      throw new JsonlError("shrunk", `${path} was shortened to ${end} bytes; restore it, or open it again.`);
    }
    if (end !== this.end && Buffer.compare(this.#before(from, this.#mark.length), this.#mark) !== 0) {
      throw new JsonlError("changed", `${path} was rewritten in place; open it again.`);
    }
    this.#moveTo(end);
    return this.size > from ? { from, to: this.size } : null;
  }

  /** Takes in everything up to `offset`, where `lines` end that were found there. */
  advanceTo(offset: number, lines: Uint8Array): void {
    this.size = offset;
    this.end = offset;
    this.#mark = lines.slice(-MARK);
  }

  /** One call tells who stands at the path and how long it is: a look is half of what a small append costs. */
  #currentEnd(): number {
    const { path, calls } = this.#descriptor;
    let there: FileFacts | undefined;
    try {
      there = uninterrupted(() => calls.lstatSync(path));
    } catch (error) {
      throw new JsonlError("unreadable", `${path} cannot be looked at; check its folder.`, error);
    }
    if (there === undefined) {
      throw new JsonlError(
        "removed",
        `${path} was removed or renamed; put it back, or open it where it is now.`,
      );
    }
    if (!isSameFile(there, this.#identity)) {
      throw new JsonlError("changed", `Another file was put at ${path}; open it again.`);
    }
    return Number(there.size);
  }

  #moveTo(end: number): void {
    // What was looked at before holds no newline, unless the torn line was cut off meanwhile.
    const searched = end >= this.end ? this.end : this.size;
    const last = this.#lastLineFeed(searched, end);
    // Reading may fail, and then nothing has moved.
    if (last >= 0) this.#mark = this.#before(last + 1, Math.min(MARK, last + 1));
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

  /** The `length` bytes that end at `offset`, or as many as can be read. */
  #before(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    return bytes.subarray(0, this.#descriptor.readInto(offset - length, bytes));
  }
}
