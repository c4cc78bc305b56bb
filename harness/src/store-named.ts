import { constants } from "node:fs";
import { type FileCalls, nodeFileCalls, openView } from "@espalier/jsonl-stream/node";
import type { SessionStore } from "@espalier/session-tree";
import { fileStore, type Processes, systemProcesses } from "@espalier/session-tree/node";
import { BrokenLog, type BrokenWrite, UnguardedUpgrade } from "./broken-log.ts";

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
export interface StoreMachine {
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
