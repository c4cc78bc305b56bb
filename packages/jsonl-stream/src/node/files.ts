import { randomBytes } from "node:crypto";
import fs, { type BigIntStats, constants } from "node:fs";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { EspalierError } from "../error.ts";
import type { ByteView } from "../line-window.ts";

/** Access to a file. `write` means to append, and to read. */
export type OpenMode = "read" | "write";

interface OpenedFile {
  fd: number;
  facts: FileFacts;
  /** True when this call made the file. */
  created: boolean;
}

// O_NONBLOCK: opening a FIFO must not hang. Where there is no O_NOFOLLOW (Windows), looking before must do.
const SAFE = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

const FLAGS: Record<OpenMode, number> = {
  read: constants.O_RDONLY | SAFE,
  write: constants.O_RDWR | constants.O_APPEND | SAFE,
};
const NEW = constants.O_CREAT | constants.O_EXCL;

/**
 * Opens a regular file and nothing else, and for writing only one of our own. It looks before, since opening a device
 * can do something, and after, since another file may have come in between.
 *
 * @param create - make the file, mode 0600, when there is none
 */
export function openRegularFile(path: string, mode: OpenMode, create: boolean, calls: FileCalls): OpenedFile {
  const before = openingCall(path, "read", () => calls.lstatSync(path));
  if (before === undefined && !create)
    throw new EspalierError("not-found", `There is no file ${path}; check the path.`);
  if (before !== undefined) check(path, mode, before);
  const created = before === undefined;
  let fd: number;
  try {
    fd = uninterrupted(() => calls.openSync(path, created ? FLAGS[mode] | NEW : FLAGS[mode], 0o600));
  } catch (error) {
    // Another program made it meanwhile.
    if (created && systemCode(error) === "EEXIST") return openRegularFile(path, mode, false, calls);
    throw openError(path, mode, error);
  }
  try {
    const facts = openingCall(path, mode, () => calls.fstatSync(fd));
    check(path, mode, facts);
    return { fd, facts, created };
  } catch (error) {
    closeFile(path, fd, calls);
    throw error;
  }
}

function check(path: string, mode: OpenMode, facts: FileFacts): void {
  checkKind(path, facts);
  if (mode === "write") checkOwner(path, facts);
}

function openingCall<T>(path: string, mode: OpenMode, call: () => T): T {
  try {
    return uninterrupted(call);
  } catch (error) {
    throw openError(path, mode, error);
  }
}

function openError(path: string, mode: OpenMode, error: unknown): EspalierError {
  const code = systemCode(error);
  if (isNoFolder(error))
    return new EspalierError(
      "not-found",
      `There is no file ${path}; make its folder first, if it is to be made.`,
      { cause: error },
    );
  if (code === "ELOOP" || code === "EMLINK") {
    return new EspalierError(
      "not-a-file",
      `${path} is a symbolic link, which is not followed; name the file it leads to.`,
      { cause: error },
    );
  }
  if (mode === "write" && (code === "EACCES" || code === "EPERM" || code === "EROFS")) {
    return new EspalierError("read-only", `${path} may not be written; open it for reading, or copy it.`, {
      cause: error,
    });
  }
  return new EspalierError(
    "unreadable",
    `${path} cannot be opened (${code ?? "see cause"}); check its permissions.`,
    { cause: error },
  );
}

/** A file as it was when it was opened: what is appended later is not in the view. */
export interface FileView extends ByteView {
  /** Absolute. */
  readonly path: string;
  /** Reading fails with `closed` from then on. */
  close(): void;
}

/**
 * Opens a regular file of any size for reading by position. Reading may fail with `unreadable`, or `shrunk` when the
 * file was shortened meanwhile.
 *
 * @throws EspalierError `not-found`, `not-a-file`, `unreadable`
 */
export function openView(path: string, options: { calls?: FileCalls } = {}): FileView {
  const absolute = resolve(path);
  const { calls = nodeFileCalls } = options;
  const { fd, facts } = openRegularFile(absolute, "read", false, calls);
  const descriptor = new Descriptor(absolute, fd, calls);
  return { ...descriptor.view(Number(facts.size)), path: absolute, close: () => descriptor.close() };
}

/** One read call is given at most this many bytes: the system takes no more than 2 GiB at once. */
const PIECE = 1 << 30;

/** An open file, read by position, and whether it is still open: shared by all views of it. */
export class Descriptor {
  readonly path: string;
  readonly fd: number;
  readonly calls: FileCalls;
  #open = true;
  /** Calls that still need the descriptor although the file was closed. */
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
    if (!this.#open) throw new EspalierError("closed", `${this.path} was closed; open it again.`);
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
      throw new EspalierError(
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

  /** Keeps the descriptor open during a call on another thread; returns the function that releases it. */
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
export function unreadable(path: string, what: string, cause: unknown): EspalierError {
  const code = systemCode(cause) ?? "see cause";
  if (code === "ESTALE")
    return new EspalierError("removed", `${path} is gone from its server (ESTALE); open it again.`, {
      cause,
    });
  return new EspalierError("unreadable", `${path} ${what} (${code}).`, { cause });
}

/** Facts of a file: identity and size are big integers, since inode numbers exceed 2^53. */
export type FileFacts = Pick<BigIntStats, "dev" | "ino" | "size" | "uid" | "mode" | "mtimeNs">;

/**
 * Every call this package makes to the file system, in the shape of `node:fs`. Tests pass one that fails;
 * programs leave it alone.
 */
export type FileCalls = typeof nodeFileCalls;

/** The calls of `node:fs`. */
export const nodeFileCalls = {
  /** Gives a descriptor; `flags` are those of `fs.constants`. */
  openSync: (path: string, flags: number, mode?: number): number => fs.openSync(path, flags, mode),
  /** Never repeated, even after an error: the number may belong to another file by then. */
  closeSync: (fd: number): void => fs.closeSync(fd),
  /** `position` null: the descriptor's own, which for one opened to append is the end. */
  writeSync: (fd: number, bytes: Uint8Array, offset: number, length: number, position: number | null) =>
    fs.writeSync(fd, bytes, offset, length, position),
  /** Reads from `position` into `target` at `offset`; returns the bytes read, 0 at the end. */
  readSync: (fd: number, target: Uint8Array, offset: number, length: number, position: number) =>
    fs.readSync(fd, target, offset, length, position),
  /** Facts of the open file, even when its path leads elsewhere by now. */
  fstatSync: (fd: number): FileFacts => fs.fstatSync(fd, { bigint: true }),
  /** `mode` is the nine bits of permission: 0o600. */
  fchmodSync: (fd: number, mode: number): void => fs.fchmodSync(fd, mode),
  /** Shortens files that hold no lines of a log; those are never cut off. */
  ftruncateSync: (fd: number, length: number): void => fs.ftruncateSync(fd, length),
  /** Undefined when nothing is there. */
  lstatSync: (path: string): FileFacts | undefined =>
    fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }),
  /** Returns when what was written is on disk, and of the file's facts what reading it takes. */
  fdatasyncSync: (fd: number): void => fs.fdatasyncSync(fd),
  /** As `fdatasyncSync`, on another thread. */
  fdatasync: promisify(fs.fdatasync) as (fd: number) => Promise<void>,
  /** As `fdatasyncSync`, with all facts: for folders, so that names last. */
  fsyncSync: (fd: number): void => fs.fsyncSync(fd),
  /** As `fsyncSync`, on another thread. */
  fsync: (fd: number): Promise<void> => promisify(fs.fsync)(fd),
  /** A second name for a file; throws `EEXIST` where there is something. */
  linkSync: (existing: string, path: string): void => fs.linkSync(existing, path),
  /** Puts a file in the place of another, at once. */
  renameSync: (from: string, to: string): void => fs.renameSync(from, to),
  /** Takes a name away. */
  unlinkSync: (path: string): void => fs.unlinkSync(path),
  /** Names in a folder, in any order. */
  readdirSync: (path: string): string[] => fs.readdirSync(path),
  /** 12 hex digits that no other call gives: part of the name of a file that is put in place later. */
  randomName: (): string => randomBytes(6).toString("hex"),
};

/** Makes a call, again where a signal interrupted it, whose failure means that the file at `path` is not written. */
export function writingCall<T>(path: string, call: () => T): T {
  try {
    return uninterrupted(call);
  } catch (error) {
    throw writeError(path, error);
  }
}

/** As {@link writingCall}, for a call on another thread. */
export async function writingCallAsync<T>(path: string, call: () => Promise<T>): Promise<T> {
  try {
    return await uninterruptedAsync(call);
  } catch (error) {
    throw writeError(path, error);
  }
}

function writeError(path: string, error: unknown): EspalierError {
  if (error instanceof EspalierError) return error;
  const code = systemCode(error);
  if (code === "EEXIST")
    return new EspalierError("exists", `${path} is already there and was left alone; choose another name.`, {
      cause: error,
    });
  if (isNoFolder(error))
    return new EspalierError("not-found", `There is no folder for ${path}; create it first.`, {
      cause: error,
    });
  const cure = "check the permissions of its folder and the free space on the disk";
  return new EspalierError(
    "write-failed",
    `${path} could not be written (${code ?? "see cause"}); ${cure}.`,
    { cause: error },
  );
}

/** Error codes of systems that cannot sync a folder (Windows; some network and user-space file systems). */
const UNSUPPORTED = new Set(["EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EISDIR", "EBADF"]);

/** Makes the name of a file durable: a power cut otherwise takes a new name away with its bytes. */
export function syncFolderOf(path: string, calls: FileCalls): void {
  // Windows opens no folder and journals names by itself.
  if (process.platform === "win32") return;
  const fd = uninterrupted(() => calls.openSync(dirname(path), constants.O_RDONLY));
  try {
    uninterrupted(() => calls.fsyncSync(fd));
  } catch (error) {
    if (!UNSUPPORTED.has(systemCode(error) ?? "")) throw error;
  } finally {
    closeFile(dirname(path), fd, calls);
  }
}

/** As {@link syncFolderOf}, on another thread. */
export async function syncFolderOfAsync(path: string, calls: FileCalls): Promise<void> {
  if (process.platform === "win32") return;
  const fd = uninterrupted(() => calls.openSync(dirname(path), constants.O_RDONLY));
  try {
    await uninterruptedAsync(() => calls.fsync(fd));
  } catch (error) {
    if (!UNSUPPORTED.has(systemCode(error) ?? "")) throw error;
  } finally {
    closeFile(dirname(path), fd, calls);
  }
}

/**
 * Lets all who wait for a sync share one: whoever asks while one runs waits for the next, which begins after what they
 * wrote. A round begins one turn of the event loop late, so that what is written in the same turn is in it.
 *
 * @returns resolves when a sync that began after its call has ended, and rejects as that one does
 */
export function groupSync(sync: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  /** True until the round that was promised has begun: what is written until then is in it. */
  let isGathering = false;
  const begin = (): Promise<void> => {
    next = undefined;
    isGathering = true;
    const round = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => {
        isGathering = false;
        return sync();
      })
      .finally(() => {
        if (running === round) running = undefined;
      });
    running = round;
    return round;
  };
  return () => {
    if (running === undefined) return begin();
    if (isGathering) return running;
    next ??= running.then(begin, begin);
    return next;
  };
}

/** Closes a descriptor, which is gone afterwards even when the system reports an error or a signal interrupts the call. */
export function closeFile(path: string, fd: number, calls: FileCalls): void {
  try {
    calls.closeSync(fd);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EINTR") return;
    const message = `${path} could not be closed (${code ?? "see cause"}); what was not synced may be lost.`;
    throw new EspalierError("write-failed", message, { cause: error });
  }
}

const KINDS = new Map<number, string>([
  [constants.S_IFLNK, "a symbolic link, which is not followed; name the file it leads to."],
  [constants.S_IFDIR, "a folder; name a file in it."],
  [constants.S_IFIFO, "a FIFO; name a regular file."],
  [constants.S_IFSOCK, "a socket; name a regular file."],
  [constants.S_IFCHR, "a device; name a regular file."],
  [constants.S_IFBLK, "a device; name a regular file."],
]);

/** Refuses a path that is not a regular file; the error names its kind. */
export function checkKind(path: string, facts: FileFacts): void {
  const kind = KINDS.get(Number(facts.mode) & constants.S_IFMT);
  if (kind !== undefined) throw new EspalierError("not-a-file", `${path} is ${kind}`);
}

/** Refuses a file of another user, who could read everything written to it. Windows has no such owners. */
export function checkOwner(path: string, { uid }: FileFacts): void {
  const own = process.geteuid?.();
  if (own === undefined || Number(uid) === own) return;
  throw new EspalierError(
    "not-ours",
    `${path} belongs to user ${uid}, not to ${own}; write as its owner, or to a copy.`,
  );
}

/** True when both are the same file, even under two names. */
export function isSameFile(one: FileFacts, other: FileFacts): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

/** The code of an error of the operating system (`ENOENT`, …), or undefined for any other error. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** True when a folder of the path is missing, or is a file. */
function isNoFolder(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** Attempts at an interrupted call: enough for any burst of signals, and no endless loop. */
const ATTEMPTS = 100;

/** True for a call that did nothing and may be made again. */
const isInterrupted = (error: unknown): boolean => {
  const code = systemCode(error);
  return code === "EINTR" || code === "EAGAIN";
};

/** Makes a call again that a signal interrupted before it did anything. */
export function uninterrupted<T>(call: () => T): T {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return call();
    } catch (error) {
      if (!isInterrupted(error) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** As {@link uninterrupted}, for a call on another thread. */
export async function uninterruptedAsync<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (error) {
      if (!isInterrupted(error) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Rights of everybody but the owner. */
const OTHERS = 0o077n;

/** File systems that know no rights (FAT, some network mounts) have none to take away. */
const NO_RIGHTS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/** Keeps an open file to its owner. Windows has no such rights, and says that everybody has them. */
export function tightenFile({ path, fd, calls }: Descriptor, { mode }: FileFacts): void {
  if (process.platform === "win32" || (mode & OTHERS) === 0n) return;
  try {
    uninterrupted(() => calls.fchmodSync(fd, Number(mode & ~OTHERS & 0o7777n)));
  } catch (error) {
    const code = systemCode(error);
    if (code !== undefined && NO_RIGHTS.has(code)) return;
    throw new EspalierError(
      "read-only",
      `${path} cannot be kept from others (${code ?? "see cause"}); open it for reading, or copy it.`,
      { cause: error },
    );
  }
}
