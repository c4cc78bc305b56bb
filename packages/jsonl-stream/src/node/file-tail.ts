import { JsonlError } from "../jsonl-error.ts";
import { LINE_FEED } from "../line-window.ts";
import type { Descriptor } from "./descriptor.ts";
import type { FileFacts } from "./file-calls.ts";

/** Bytes searched at a time for the last newline. */
const BLOCK = 1 << 16;

/** What is known of the end of a growing file: where its whole lines end, and where the file does. */
export class FileTail {
  /** Where the whole lines end that were taken in. */
  size = 0;
  /** Where the file ended at the last look; beyond `size` stands an unterminated line. */
  end = 0;
  readonly #descriptor: Descriptor;
  readonly #identity: Pick<FileFacts, "dev" | "ino">;

  constructor(descriptor: Descriptor, facts: FileFacts) {
    this.#descriptor = descriptor;
    this.#identity = facts;
    this.#moveTo(Number(facts.size));
  }

  /** True when the next byte begins a line. */
  get clean(): boolean {
    return this.size === this.end;
  }

  /** Takes in the lines that became whole since the last look. Throws when the file is not the one that was opened. */
  look(): void {
    const { path, fd, calls } = this.#descriptor;
    const { dev, ino } = this.#identity;
    const there = calls.lstatSync(path);
    if (there === undefined) {
      throw new JsonlError(
        "removed",
        `${path} was removed or renamed; nothing was written. Open it where it is now.`,
      );
    }
    if (there.ino !== ino || there.dev !== dev) {
      throw new JsonlError("changed", `Another file stands at ${path}; nothing was written. Open it again.`);
    }
    const end = Number(calls.fstatSync(fd).size);
    if (end < this.size) {
      throw new JsonlError(
        "shrunk",
        `${path} was shortened to ${end} bytes; nothing was written. Restore it, or open it again.`,
      );
    }
    this.#moveTo(end);
  }

  /** Notes that the file is known to hold whole lines up to `offset`. */
  advanceTo(offset: number): void {
    this.size = offset;
    this.end = offset;
  }

  #moveTo(end: number): void {
    // Bytes already looked at hold no newline, unless the torn line was cut off and written anew.
    const searched = end >= this.end ? this.end : this.size;
    const last = this.#lastLineFeed(searched, end);
    if (last >= 0) this.size = last + 1;
    this.end = end;
  }

  #lastLineFeed(from: number, to: number): number {
    const block = Buffer.allocUnsafe(Math.min(BLOCK, to - from));
    for (let stop = to; stop > from; ) {
      const start = Math.max(from, stop - block.length);
      const part = block.subarray(0, stop - start);
      const count = this.#descriptor.readInto(start, part);
      const found = part.subarray(0, count).lastIndexOf(LINE_FEED);
      if (found >= 0) return start + found;
      stop = start;
    }
    return -1;
  }
}
