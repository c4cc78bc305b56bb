import { encodeLines } from "@espalier/jsonl-stream";
import type { Durability, LogAppend, SessionLog } from "@espalier/session-tree";

/** Puts bytes at the end of a file in some way that is not good enough. */
export type BrokenWrite = (path: string, bytes: Uint8Array) => Promise<void>;

/** A log that reads as it should and writes as it should not: to see whether a trial notices. */
export class BrokenLog implements SessionLog {
  readonly #log: SessionLog;
  readonly #write: BrokenWrite;

  constructor(log: SessionLog, write: BrokenWrite) {
    this.#log = log;
    this.#write = write;
  }

  get ref() {
    return this.#log.ref;
  }

  get header() {
    return this.#log.header;
  }

  get view() {
    return this.#log.view;
  }

  get upgraded() {
    return this.#log.upgraded;
  }

  load() {
    return this.#log.load();
  }

  readPath(leafId?: string) {
    return this.#log.readPath(leafId);
  }

  async append(lines: readonly string[], _options?: { durability?: Durability }): Promise<LogAppend> {
    const from = this.view!.size;
    const bytes = encodeLines(lines);
    if (bytes.length === 0) return { offset: from, length: 0, from, to: from };
    await this.#write(this.ref, bytes);
    const to = (await this.#log.takeIn())?.to ?? from;
    return { offset: Math.max(from, to - bytes.length), length: bytes.length, from, to };
  }

  takeIn() {
    return this.#log.takeIn();
  }

  async flush(): Promise<void> {
    // Says that it is done: the write was hardly more honest.
  }

  close() {
    return this.#log.close();
  }
}
