import type { ByteView } from "../byte-view.ts";
import { JsonlError } from "../jsonl-error.ts";
import { closeFile } from "./close-file.ts";
import type { FileCalls } from "./file-calls.ts";
import { systemCode, uninterrupted } from "./system-error.ts";

/** One read call is given at most this many bytes: the system takes no more than 2 GiB at once. */
const PIECE = 1 << 30;

/** An open file, read by position, and whether it is still open: shared by all views of it. */
export class Descriptor {
  readonly path: string;
  readonly fd: number;
  readonly calls: FileCalls;
  #open = true;
  /** How many still need the descriptor although the file was closed. */
  #holds = 0;

  constructor(path: string, fd: number, calls: FileCalls) {
    this.path = path;
    this.fd = fd;
    this.calls = calls;
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** Throws once the file was closed: the number of a closed descriptor may already belong to another file. */
  assertOpen(): void {
    if (!this.#open) throw new JsonlError("closed", `${this.path} was closed; open it again.`);
  }

  /** Fills `target` from `position` on, as far as the file goes, and returns how many bytes that were. */
  readInto(position: number, target: Uint8Array): number {
    this.assertOpen();
    let done = 0;
    while (done < target.length) {
      const length = Math.min(target.length - done, PIECE);
      const count = this.#read(target, done, length, position + done);
      if (count === 0) break;
      done += count;
    }
    return done;
  }

  /** The first `size` bytes of the file. */
  view(size: number): ByteView {
    const readInto = (offset: number, target: Uint8Array): number => {
      const length = Math.max(0, Math.min(target.length, size - offset));
      const count = this.readInto(offset, length === target.length ? target : target.subarray(0, length));
      if (count === length) return count;
      throw new JsonlError(
        "shrunk",
        `${this.path} is shorter than what was read from it; restore it, or open it again.`,
      );
    };
    const read = (offset: number, length: number): Uint8Array => {
      const bytes = new Uint8Array(Math.max(0, Math.min(length, size - offset)));
      readInto(offset, bytes);
      return bytes;
    };
    return { size, read, readInto };
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    if (this.#holds === 0) closeFile(this.path, this.fd, this.calls);
  }

  /** Keeps the descriptor from being closed under a call on another thread; returns what lets go of it. */
  hold(): () => void {
    this.#holds += 1;
    return () => {
      this.#holds -= 1;
      if (this.#holds === 0 && !this.#open) closeFile(this.path, this.fd, this.calls);
    };
  }

  #read(target: Uint8Array, offset: number, length: number, position: number): number {
    try {
      return uninterrupted(() => this.calls.readSync(this.fd, target, offset, length, position));
    } catch (error) {
      throw unreadable(this.path, `cannot be read at offset ${position}`, error);
    }
  }
}

/** The error for a file that cannot be read; one whose server has it no more is gone for good, and is `removed`. */
export function unreadable(path: string, what: string, cause: unknown): JsonlError {
  const code = systemCode(cause) ?? "see cause";
  if (code === "ESTALE")
    return new JsonlError("removed", `${path} is gone from its server (ESTALE); open it again.`, cause);
  return new JsonlError("unreadable", `${path} ${what} (${code}).`, cause);
}
