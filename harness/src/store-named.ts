import { constants, writeFileSync } from "node:fs";
import { appendFile, readFile } from "node:fs/promises";
import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import type { SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { BrokenLog, type BrokenWrite } from "./broken-log.ts";

/** The store of files, and five that each leave out one part of the protocol. */
export const storeNames = [
  "file",
  "no-healing",
  "short-counts-ignored",
  "promises-append-file",
  "ack-before-write",
  "rewrite-in-place",
] as const;

export type StoreName = (typeof storeNames)[number];

/** A store on trial, keeping its sessions below `home`. */
export function storeNamed(name: StoreName, home: string, calls: FileCalls = nodeFileCalls): SessionStore {
  const good = fileStore({ home, calls });
  if (name === "file") return good;
  const write = brokenWrites(calls)[name];
  return {
    ...good,
    async create(header, lines, ref) {
      const log = await good.create(header, lines, ref);
      await log.close();
      return new BrokenLog(await good.open(log.ref, "read"), write);
    },
    async open(ref, mode) {
      const log = await good.open(ref, "read");
      return mode === "read" ? log : new BrokenLog(log, write);
    },
  };
}

function brokenWrites(calls: FileCalls): Record<Exclude<StoreName, "file">, BrokenWrite> {
  const withFile = async (path: string, write: (fd: number) => void) => {
    const fd = calls.openSync(path, constants.O_WRONLY | constants.O_APPEND);
    try {
      write(fd);
    } finally {
      calls.closeSync(fd);
    }
  };
  return {
    /** Whole and counted, but glued to whatever torn line stands at the end. */
    "no-healing": (path, bytes) =>
      withFile(path, (fd) => {
        const count = calls.writeSync(fd, bytes, 0, bytes.length, null);
        if (count < bytes.length) throw new Error("A short write.");
      }),
    /** On a line of its own, but what did not fit is forgotten. */
    "short-counts-ignored": (path, bytes) =>
      withFile(path, (fd) => {
        const healed = Buffer.concat([Buffer.from("\n"), bytes]);
        calls.writeSync(fd, healed, 0, healed.length, null);
      }),
    /** In pieces of 512 KiB, between which others write. */
    "promises-append-file": (path, bytes) => appendFile(path, bytes),
    /** Told before it is true. */
    "ack-before-write": async (path, bytes) => {
      setTimeout(() => void appendFile(path, bytes), 20);
    },
    /** What others appended since it was read is gone. */
    "rewrite-in-place": async (path, bytes) => {
      writeFileSync(path, Buffer.concat([await readFile(path), bytes]));
    },
  };
}
