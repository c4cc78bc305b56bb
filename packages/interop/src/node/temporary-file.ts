import { randomUUID } from "node:crypto";
import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InteropError } from "../import-error.ts";
import type { PageFile } from "../scratch/scratch-space.ts";

/**
 * Pages in a file that only this process sees: its name is taken away as soon as it is open, so that nothing is left
 * behind even by a process that is killed. Numbers and hashes are in it, nothing that anybody said.
 */
export class TemporaryFile implements PageFile {
  readonly #folder: string;
  readonly #handle: number;
  /** Where the system keeps the name of an open file. */
  #path: string | undefined;

  /** @throws InteropError `no-room` */
  constructor(folder = tmpdir()) {
    this.#folder = folder;
    this.#path = join(folder, `espalier-import-${randomUUID()}`);
    this.#handle = this.#try(() => openSync(this.#path!, "wx+", 0o600));
    this.#removeName();
  }

  read(slot: number, page: Uint8Array): void {
    const read = this.#try(() => readSync(this.#handle, page, 0, page.length, slot * page.length));
    if (read !== page.length) throw this.#error(new Error(`${read} bytes of a page are there.`));
  }

  write(slot: number, page: Uint8Array): void {
    for (let at = 0; at < page.length; )
      at += this.#try(() => writeSync(this.#handle, page, at, page.length - at, slot * page.length + at));
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
    const message = `What an import has to remember cannot be kept in ${this.#folder} (${String((cause as { code?: unknown }).code ?? "cut")}); make room there, or name another folder in TMPDIR.`;
    return new InteropError("no-room", message, { cause });
  }
}
