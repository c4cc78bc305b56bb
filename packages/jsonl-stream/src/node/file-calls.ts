import { randomBytes } from "node:crypto";
import type { BigIntStats } from "node:fs";
import fs from "node:fs";
import { promisify } from "node:util";

/** What is asked of a file's facts: identity and size as big integers, since inode numbers exceed 2^53. */
export type FileFacts = Pick<BigIntStats, "dev" | "ino" | "size" | "uid" | "mode" | "mtimeNs">;

/**
 * Every call this package makes to the file system, in the shape of `node:fs`. Tests pass one that fails;
 * programs leave it alone.
 */
export interface FileCalls {
  /** Gives a descriptor; `flags` are those of `fs.constants`. */
  openSync(path: string, flags: number, mode?: number): number;
  /** Never repeated, whatever it threw: the number may be another file's by then. */
  closeSync(fd: number): void;
  /** `position` null: where the descriptor stands, which for one opened to append is the end. */
  writeSync(fd: number, bytes: Uint8Array, offset: number, length: number, position: number | null): number;
  /** How many bytes were read, from `position` into `target` at `offset`; 0 at the end. */
  readSync(fd: number, target: Uint8Array, offset: number, length: number, position: number): number;
  /** Of what the descriptor is open for, whatever its path leads to by now. */
  fstatSync(fd: number): FileFacts;
  /** `mode` is the nine bits of permission: 0o600. */
  fchmodSync(fd: number, mode: number): void;
  /** For files of ours that may say nothing any more; lines of a log are never cut off. */
  ftruncateSync(fd: number, length: number): void;
  /** Undefined when nothing is there. */
  lstatSync(path: string): FileFacts | undefined;
  /** Returns when what was written is on disk, and of the file's facts what reading it takes. */
  fdatasyncSync(fd: number): void;
  /** As `fdatasyncSync`, on another thread. */
  fdatasync(fd: number): Promise<void>;
  /** As `fdatasyncSync`, with all facts: for folders, so that names last. */
  fsyncSync(fd: number): void;
  /** A second name for a file; throws `EEXIST` where there is something. */
  linkSync(existing: string, path: string): void;
  /** Puts a file in the place of another, at once. */
  renameSync(from: string, to: string): void;
  /** Takes a name away. */
  unlinkSync(path: string): void;
  /** Names in a folder, in any order. */
  readdirSync(path: string): string[];
  /** 12 hex digits that no other call gives: part of the name of a file that is put in place later. */
  randomName(): string;
}

/** The calls of `node:fs`. */
export const nodeFileCalls: FileCalls = {
  openSync: (path, flags, mode) => fs.openSync(path, flags, mode),
  closeSync: (fd) => fs.closeSync(fd),
  writeSync: (fd, bytes, offset, length, position) => fs.writeSync(fd, bytes, offset, length, position),
  readSync: (fd, target, offset, length, position) => fs.readSync(fd, target, offset, length, position),
  fstatSync: (fd) => fs.fstatSync(fd, { bigint: true }),
  fchmodSync: (fd, mode) => fs.fchmodSync(fd, mode),
  ftruncateSync: (fd, length) => fs.ftruncateSync(fd, length),
  lstatSync: (path) => fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }),
  fdatasyncSync: (fd) => fs.fdatasyncSync(fd),
  fdatasync: promisify(fs.fdatasync),
  fsyncSync: (fd) => fs.fsyncSync(fd),
  linkSync: (existing, path) => fs.linkSync(existing, path),
  renameSync: (from, to) => fs.renameSync(from, to),
  unlinkSync: (path) => fs.unlinkSync(path),
  readdirSync: (path) => fs.readdirSync(path),
  randomName: () => randomBytes(6).toString("hex"),
};
