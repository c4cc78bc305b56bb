import { constants, writeFileSync } from "node:fs";
import { EspalierError, encodeLines, formatLine } from "@espalier/jsonl-stream";
import { type FileCalls, nodeFileCalls, openView, replaceWhole } from "@espalier/jsonl-stream/node";
import {
  custom,
  type Entry,
  message,
  type NewEntry,
  type SessionLog,
  type SessionStore,
  SessionTree,
} from "@espalier/session-tree";
import { fileStore, type Processes, systemProcesses } from "@espalier/session-tree/node";
import { testHeader } from "@espalier/session-tree/testing";

/** The store of files, and seven that each omit one part of the protocol. */
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

type AnyCall = (...args: unknown[]) => unknown;

/**
 * Wraps the calls of the file layer so that each passes through `pass`.
 *
 * @param pass makes the call, or acts in its place; when it throws during an asynchronous call, the call rejects
 */
export function passingCalls(pass: (name: string, call: AnyCall, args: unknown[]) => unknown): FileCalls {
  const { randomName, ...node } = nodeFileCalls;
  const passing = Object.entries(node).map(([name, call]: [string, unknown]) => [
    name,
    (...args: unknown[]) => pass(name, call as AnyCall, args),
  ]);
  const calls: FileCalls = { ...Object.fromEntries(passing), randomName };
  const { fdatasync, fsync } = calls;
  return { ...calls, fdatasync: async (fd) => fdatasync(fd), fsync: async (fd) => fsync(fd) };
}

/** An error of the system. */
export class SystemError extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** Makes a call fail with an error of the system, or (`short`) do half of a write or a read. */
export function failCall(kind: string, name: string, call: AnyCall, args: unknown[]): unknown {
  if (kind === "short") return call(...halved(name, args));
  // Closing frees a descriptor even when the call fails.
  if (name === "closeSync") call(...args);
  throw new SystemError(kind);
}

/** Halves the length of a write or a read (`fd, bytes, offset, length, position`). A read has at least one byte. */
export function halved(name: string, args: readonly unknown[]): unknown[] {
  const length = args[3];
  if ((name !== "writeSync" && name !== "readSync") || typeof length !== "number") return [...args];
  return args.with(3, Math.max(name === "readSync" ? 1 : 0, length >> 1));
}

/** The machine of a store; a simulated one sets all of it. */
interface StoreMachine {
  calls?: FileCalls;
  processes?: Processes;
  /** Bytes that the store that writes in pieces writes at once. Default 512 KiB, as Node does. */
  piece?: number;
  /** Runs an act a little later. Default: after 20 ms. */
  later?: (act: () => void) => void;
}

/** Opens a store on trial, with its sessions below `home`. */
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
        return mode === "write" && log.upgraded ? unguardedUpgrade(log, good, calls) : log;
      },
    };
  const write = brokenWrites({ ...machine, calls })[name];
  return {
    ...good,
    async create(header, lines, ref) {
      const log = await good.create(header, lines, ref);
      await log.close();
      return brokenLog(await good.open({ file: log.ref }, "read"), write);
    },
    async open(ref, mode) {
      const log = await good.open(ref, "read");
      return mode === "read" ? log : brokenLog(log, write);
    },
  };
}

/** A lease that is read and removed once, whatever the result. */
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
    /** Whole and counted, but glued to a torn line at the end. */
    "no-healing": (path, bytes) => withFile(path, (fd) => whole(fd, bytes)),
    /** On a line of its own, but bytes that did not fit are forgotten. */
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
    /** Acknowledged before it is written. */
    "ack-before-write": async (path, bytes) => {
      // The result is ignored: the caller has its answer already.
      later(() => void withFile(path, (fd) => whole(fd, bytes)).catch(() => undefined));
    },
    /** Lines that others appended since the file was read are gone. */
    "rewrite-in-place": async (path, bytes) => {
      const view = openView(path, { calls });
      const before = view.read(0, view.size);
      view.close();
      await withFile(path, (fd) => whole(fd, Buffer.concat([before, bytes])), constants.O_TRUNC);
    },
  };
}

/** Writes bytes at the end of a file in a way that is not safe. */
type BrokenWrite = (path: string, bytes: Uint8Array) => Promise<void>;

/** Wraps the current log and replaces some of its members. */
function withMembers(log: () => SessionLog, members: Partial<SessionLog>): SessionLog {
  return new Proxy(log(), {
    get(_, name) {
      if (name in members) return members[name as keyof SessionLog];
      const current = log();
      const value: unknown = Reflect.get(current, name, current);
      return typeof value === "function" ? value.bind(current) : value;
    },
  });
}

/** A log that reads as it should and writes as it should not, to see whether a trial detects it. */
function brokenLog(log: SessionLog, write: BrokenWrite): SessionLog {
  return withMembers(() => log, {
    async append(lines) {
      const from = log.view!.size;
      const bytes = encodeLines(lines);
      if (bytes.length === 0) return { offset: from, length: 0, from, to: from };
      await withCode(() => write(log.ref, bytes));
      const to = (await log.takeIn())?.to ?? from;
      return { offset: Math.max(from, to - bytes.length), length: bytes.length, from, to };
    },
    // Reports success: the write was hardly more honest.
    flush: async () => undefined,
  });
}

/** A log of an old format that is upgraded as it was before two processes were kept from doing it at once. */
function unguardedUpgrade(old: SessionLog, store: SessionStore, calls: FileCalls): SessionLog {
  let log = old;
  return withMembers(() => log, {
    async append(lines, options) {
      const { upgraded, ref } = log;
      if (upgraded && lines.length > 0) {
        await log.takeIn();
        await withCode(async () =>
          replaceWhole(ref, [upgraded.view.read(0, upgraded.view.size)], {
            keepAs: `${ref}.v${upgraded.from}`,
            expectedSize: upgraded.original.size,
            calls,
          }),
        );
        const current = await store.open({ file: ref }, "write");
        await log.close();
        log = current;
      }
      return log.append(lines, options);
    },
  });
}

/** Gives errors a code: a store is to be detected by its fault and not by an error without one. */
async function withCode(act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (cause) {
    const code = cause instanceof EspalierError ? (cause.code as "write-failed") : "write-failed";
    throw new EspalierError(code, "The file could not be written.", { cause });
  }
}

/** Opens a session as a tree of its own. */
export const openTree = async (
  store: SessionStore,
  file: string,
  mode: "read" | "write" = "read",
): Promise<SessionTree> => SessionTree.open(await store.open({ file }, mode));

/** An entry that says nothing to a model. */
export const note = (data?: unknown): NewEntry =>
  custom.of({ customType: "trial", ...(data === undefined ? {} : { data }) });

/** The bytes of lines. */
export const bytesOf = (lines: readonly object[]): Buffer =>
  Buffer.from(lines.map((line) => `${formatLine(line)}\n`).join(""));

const { version: _, ...oldHeader } = testHeader("trial");

/** A session of the first format, whose entries have no ids. */
export const oldLines: readonly object[] = [
  oldHeader,
  ...["one", "two"].map((content) => ({
    type: "message",
    timestamp: oldHeader.timestamp,
    message: { role: "user", content, timestamp: 1 },
  })),
];
export const oldSession = bytesOf(oldLines);

/** So many entries, one under the other: by turns a question, and a shell run. */
export function chainOf(count: number): Entry[] {
  return Array.from({ length: count }, (_, timestamp) => {
    const question = { role: "user", content: `Question ${timestamp}: "why" \\ ü 😀?`, timestamp };
    const run = { role: "bashExecution", command: `echo ${timestamp}`, output: `${timestamp}`, exitCode: 0 };
    return {
      ...message.of({ message: (timestamp % 2 === 0 ? question : { ...run, timestamp }) as never }),
      id: `entry${timestamp}`,
      parentId: timestamp === 0 ? null : `entry${timestamp - 1}`,
      timestamp: new Date(Date.UTC(2026, 0, 1) + timestamp * 1_000).toISOString(),
    } as Entry;
  });
}

/** The bytes of a session with these entries. */
export const sessionBytes = (entries: readonly Entry[], id = "trial"): Buffer =>
  bytesOf([testHeader(id), ...entries]);

/** Writes a session to a file. */
export function writeSession(path: string, entries: readonly Entry[] = []): string {
  writeFileSync(path, sessionBytes(entries), { mode: 0o600 });
  return path;
}
