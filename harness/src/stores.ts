import { constants, writeFileSync } from "node:fs";
import { EspalierError, encodeLines, formatLine } from "@espalier/jsonl-stream";
import { type FileCalls, nodeFileCalls, openView, replaceWhole } from "@espalier/jsonl-stream/node";
import {
  type Durability,
  type Entry,
  type LogAppend,
  message,
  type SessionHeader,
  type SessionLog,
  type SessionStore,
} from "@espalier/session-tree";
import { fileStore, type Processes, systemProcesses } from "@espalier/session-tree/node";

/** The store of files, and seven that each leave out one part of the protocol. */
export const storeNames = [
  "file",
  "no-healing",
  "short-counts-ignored",
  "promises-append-file",
  "ack-before-write",
  "rewrite-in-place",
  "unguarded-upgrade",
  "release-once",
] as const;

export type StoreName = (typeof storeNames)[number];

/** The machine a store is on; a simulated one says all of it. */
interface StoreMachine {
  calls?: FileCalls;
  processes?: Processes;
  /** Bytes that the store that writes in pieces writes at once. Default 512 KiB, as Node does. */
  piece?: number;
  /** Does something a little later. Default: after 20 ms. */
  later?: (act: () => void) => void;
}

/** A store on trial, keeping its sessions below `home`. */
export function storeNamed(name: StoreName, home: string, machine: StoreMachine = {}): SessionStore {
  const { calls = nodeFileCalls, processes = systemProcesses } = machine;
  const good = fileStore({ home, calls, processes });
  if (name === "file") return good;
  if (name === "release-once")
    return { ...good, lease: (...args) => leaseReleasedOnce(good, calls, ...args) };
  if (name === "unguarded-upgrade")
    return {
      ...good,
      open: async (ref, mode) => {
        const log = await good.open(ref, mode);
        return mode === "write" && log.upgraded ? new UnguardedUpgrade(log, good, calls) : log;
      },
    };
  const write = brokenWrites({ ...machine, calls })[name];
  return {
    ...good,
    async create(header, lines, ref) {
      const log = await good.create(header, lines, ref);
      await log.close();
      return new BrokenLog(await good.open({ file: log.ref }, "read"), write);
    },
    async open(ref, mode) {
      const log = await good.open(ref, "read");
      return mode === "read" ? log : new BrokenLog(log, write);
    },
  };
}

/** A lease that is read and removed once, whatever becomes of it. */
async function leaseReleasedOnce(
  store: SessionStore,
  calls: FileCalls,
  ...[ref, options]: Parameters<SessionStore["lease"]>
) {
  await store.lease(ref, options);
  const file = typeof ref === "object" && "file" in ref ? ref.file : (await store.open(ref, "read")).ref;
  const ownerOf = () => {
    const view = openView(`${file}.lease`, { calls });
    const bytes = view.read(0, view.size);
    view.close();
    return JSON.parse(Buffer.from(bytes).toString()).owner as string;
  };
  const owner = ownerOf();
  return {
    release: async () => {
      if (ownerOf() === owner) calls.unlinkSync(`${file}.lease`);
    },
  };
}

type WritingStore = Exclude<StoreName, "file" | "unguarded-upgrade" | "release-once">;

function brokenWrites({
  calls,
  piece = 512 * 1_024,
  later = (act) => setTimeout(act, 20),
}: StoreMachine & { calls: FileCalls }): Record<WritingStore, BrokenWrite> {
  const withFile = async (path: string, write: (fd: number) => unknown, flags = constants.O_APPEND) => {
    const fd = calls.openSync(path, constants.O_WRONLY | flags);
    try {
      await write(fd);
    } finally {
      calls.closeSync(fd);
    }
  };
  const whole = (fd: number, bytes: Uint8Array) => {
    const count = calls.writeSync(fd, bytes, 0, bytes.length, null);
    if (count < bytes.length) throw new Error("A short write.");
  };
  return {
    /** Whole and counted, but glued to whatever torn line stands at the end. */
    "no-healing": (path, bytes) => withFile(path, (fd) => whole(fd, bytes)),
    /** On a line of its own, but what did not fit is forgotten. */
    "short-counts-ignored": (path, bytes) =>
      withFile(path, (fd) => {
        const healed = Buffer.concat([Buffer.from("\n"), bytes]);
        calls.writeSync(fd, healed, 0, healed.length, null);
      }),
    /** In pieces, as `promises.appendFile` does, between which others write. */
    "promises-append-file": (path, bytes) =>
      withFile(path, async (fd) => {
        for (let at = 0; at < bytes.length; at += piece) {
          await new Promise((resolve) => setImmediate(resolve));
          whole(fd, bytes.subarray(at, at + piece));
        }
      }),
    /** Told before it is true. */
    "ack-before-write": async (path, bytes) => {
      // Whatever comes of it: the caller was told already.
      later(() => void withFile(path, (fd) => whole(fd, bytes)).catch(() => undefined));
    },
    /** What others appended since it was read is gone. */
    "rewrite-in-place": async (path, bytes) => {
      const view = openView(path, { calls });
      const before = view.read(0, view.size);
      view.close();
      await withFile(path, (fd) => whole(fd, Buffer.concat([before, bytes])), constants.O_TRUNC);
    },
  };
}

/** Puts bytes at the end of a file in some way that is not good enough. */
type BrokenWrite = (path: string, bytes: Uint8Array) => Promise<void>;

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
class BrokenLog extends PassingLog {
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
class UnguardedUpgrade extends PassingLog {
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
    const code = cause instanceof EspalierError ? (cause.code as "write-failed") : "write-failed";
    throw new EspalierError(code, "The file could not be written.", { cause });
  }
}

/** A header for a session of a trial. */
export const headerOf = (id: string): SessionHeader => ({
  type: "session",
  version: 3,
  id,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
});

/** So many entries, one under the other: by turns a question, and a shell run. */
export function chainOf(count: number): Entry[] {
  return Array.from({ length: count }, (_, at) => {
    const isUser = at % 2 === 0;
    const said = isUser
      ? { role: "user" as const, content: `Question ${at}: "why" \\ ü 😀?`, timestamp: at }
      : {
          role: "bashExecution" as const,
          command: `echo ${at}`,
          output: `${at}`,
          exitCode: 0,
          timestamp: at,
        };
    return {
      ...message.of({ message: said as never }),
      id: `entry${at}`,
      parentId: at === 0 ? null : `entry${at - 1}`,
      timestamp: new Date(Date.UTC(2026, 0, 1) + at * 1_000).toISOString(),
    } as Entry;
  });
}

/** The bytes of a session with these entries. */
export function sessionBytes(entries: readonly Entry[], id = "trial"): Buffer {
  return Buffer.from([headerOf(id), ...entries].map((line) => `${formatLine(line)}\n`).join(""));
}

/** Puts a session where a trial wants it. */
export function writeSession(path: string, entries: readonly Entry[] = []): string {
  writeFileSync(path, sessionBytes(entries), { mode: 0o600 });
  return path;
}
