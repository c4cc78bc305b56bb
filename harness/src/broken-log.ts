import { encodeLines, JsonlError } from "@espalier/jsonl-stream";
import { type FileCalls, replaceWhole } from "@espalier/jsonl-stream/node";
import {
  type Durability,
  type LogAppend,
  type SessionLog,
  type SessionStore,
  SessionTreeError,
} from "@espalier/session-tree";

/** Puts bytes at the end of a file in some way that is not good enough. */
export type BrokenWrite = (path: string, bytes: Uint8Array) => Promise<void>;

/** Does everything as another log does. */
class PassingLog implements SessionLog {
  protected log: SessionLog;

  constructor(log: SessionLog) {
    this.log = log;
  }

  get ref() {
    return this.log.ref;
  }

  get header() {
    return this.log.header;
  }

  get view() {
    return this.log.view;
  }

  get upgraded() {
    return this.log.upgraded;
  }

  load() {
    return this.log.load();
  }

  readPath(leafId?: string) {
    return this.log.readPath(leafId);
  }

  append(lines: readonly string[], options?: { durability?: Durability }): Promise<LogAppend> {
    return this.log.append(lines, options);
  }

  takeIn() {
    return this.log.takeIn();
  }

  flush(): Promise<void> {
    return this.log.flush();
  }

  close() {
    return this.log.close();
  }
}

/** A log that reads as it should and writes as it should not: to see whether a trial notices. */
export class BrokenLog extends PassingLog {
  readonly #write: BrokenWrite;

  constructor(log: SessionLog, write: BrokenWrite) {
    super(log);
    this.#write = write;
  }

  override async append(
    lines: readonly string[],
    _options?: { durability?: Durability },
  ): Promise<LogAppend> {
    const from = this.view!.size;
    const bytes = encodeLines(lines);
    if (bytes.length === 0) return { offset: from, length: 0, from, to: from };
    await coded(() => this.#write(this.ref, bytes));
    const to = (await this.log.takeIn())?.to ?? from;
    return { offset: Math.max(from, to - bytes.length), length: bytes.length, from, to };
  }

  override async flush(): Promise<void> {
    // Says that it is done: the write was hardly more honest.
  }
}

/** A log of an old format that becomes current as it did before two processes were kept from doing it at once. */
export class UnguardedUpgrade extends PassingLog {
  readonly #store: SessionStore;
  readonly #calls: FileCalls;

  constructor(log: SessionLog, store: SessionStore, calls: FileCalls) {
    super(log);
    this.#store = store;
    this.#calls = calls;
  }

  override async append(lines: readonly string[], options?: { durability?: Durability }): Promise<LogAppend> {
    const { upgraded, ref } = this.log;
    if (upgraded && lines.length > 0) {
      await this.log.takeIn();
      await coded(async () =>
        replaceWhole(ref, [upgraded.view.read(0, upgraded.view.size)], {
          keepAs: `${ref}.v${upgraded.from}`,
          expectedSize: upgraded.original.size,
          calls: this.#calls,
        }),
      );
      const log = await this.#store.open({ file: ref }, "write");
      await this.log.close();
      this.log = log;
    }
    return this.log.append(lines, options);
  }
}

/** An error without a code would be caught for that, and not for what is broken. */
async function coded(act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (cause) {
    const code = cause instanceof JsonlError ? (cause.code as "write-failed") : "write-failed";
    throw new SessionTreeError(code, "The file could not be written.", { cause });
  }
}
