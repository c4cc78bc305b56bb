import { randomUUID } from "node:crypto";
import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InteropError } from "../import-error.ts";
import type { PageFile } from "../scratch/scratch-space.ts";

/**
 * A file that only this process sees: its name is taken away as soon as it is open, so that nothing is left behind even by
 * a process that is killed.
 */
export class TemporaryFile implements PageFile {
  readonly #folder: string;
  readonly #handle: number;
  /** Where the system keeps the name of an open file. */
  #path: string | undefined;

  /** @throws InteropError `no-room` */
  constructor(folder = tmpdir()) {
    this.#folder = folder;
    this.#path = join(folder, `espalier-${randomUUID()}`);
    this.#handle = this.#try(() => openSync(this.#path!, "wx+", 0o600));
    this.#removeName();
  }

  read(slot: number, page: Uint8Array): void {
    this.readAt(slot * page.length, page);
  }

  write(slot: number, page: Uint8Array): void {
    this.writeAt(slot * page.length, page);
  }

  /** Fills `target` with what stands at an offset. */
  readAt(offset: number, target: Uint8Array): void {
    for (let at = 0; at < target.length; ) {
      const read = this.#try(() => readSync(this.#handle, target, at, target.length - at, offset + at));
      if (read === 0) throw this.#error(new Error(`${at} of ${target.length} bytes are there.`));
      at += read;
    }
  }

  /** Writes bytes at an offset, in bytes. */
  writeAt(offset: number, bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; )
      at += this.#try(() => writeSync(this.#handle, bytes, at, bytes.length - at, offset + at));
  }

  close(): void {
    closeSync(this.#handle);
    if (this.#path !== undefined) rmSync(this.#path, { force: true });
  }

  #removeName(): void {
    try {
      rmSync(this.#path!);
      this.#path = undefined;
    } catch (error) {
      // Some systems keep the name of what is open; it goes when the file is closed.
      if ((error as { code?: unknown }).code === "ENOENT") this.#path = undefined;
    }
  }

  #try<Result>(call: () => Result): Result {
    try {
      return call();
    } catch (cause) {
      throw this.#error(cause);
    }
  }

  #error(cause: unknown): InteropError {
    const message = `Temporary data cannot be kept in ${this.#folder} (${String((cause as { code?: unknown }).code ?? "cut")}); make room there, or name another folder in TMPDIR.`;
    return new InteropError("no-room", message, { cause });
  }
}
