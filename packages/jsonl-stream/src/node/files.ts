import { randomBytes } from "node:crypto";
import fs, { type BigIntStats, constants } from "node:fs";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { EspalierError, type LogErrorCode } from "../error.ts";
import { type ByteView, viewOf } from "../scan.ts";

/** Access to a file. `write` allows appending and reading. */
export type OpenMode = "read" | "write";

// O_NONBLOCK: opening a FIFO must not block. Without O_NOFOLLOW (Windows), only the check before opening detects links.
const SAFE = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

const FLAGS: Record<OpenMode, number> = {
  read: constants.O_RDONLY | SAFE,
  write: constants.O_RDWR | constants.O_APPEND | SAFE,
};

/**
 * Opens a regular file; for writing, only a file of the current user. Checks before opening, because opening a device can
 * have effects, and after it, because the file may have been replaced in between.
 */
export function openRegularFile(path: string, mode: OpenMode, calls: FileCalls) {
  const before = openingCall(path, "read", () => calls.lstatSync(path));
  if (before === undefined) throw noFile(path);
  check(path, mode, before);
  const fd = openingCall(path, mode, () => calls.openSync(path, FLAGS[mode]));
  try {
    const facts = openingCall(path, mode, () => calls.fstatSync(fd));
    check(path, mode, facts);
    return { fd, facts };
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
  const failed = (kind: LogErrorCode, problem: string) =>
    new EspalierError(kind, `${path} ${problem}`, { cause: error });
  if (isNoFolder(error)) return noFile(path, error);
  if (code === "ELOOP" || code === "EMLINK")
    return failed("not-a-file", "is a symbolic link, which is not followed; name the file it leads to.");
  if (mode === "write" && (code === "EACCES" || code === "EPERM" || code === "EROFS"))
    return failed("read-only", "may not be written; open it for reading, or copy it.");
  return failed("unreadable", `cannot be opened (${code ?? "see cause"}); check its permissions.`);
}

const noFile = (path: string, cause?: unknown) =>
  new EspalierError("not-found", `There is no file ${path}; check the path.`, { cause });

/** A file as it was when it was opened. Lines that are appended later are not in the view. */
export interface FileView extends ByteView {
  /** Closes the file. Later reads fail with `closed`. */
  close(): void;
}

/**
 * Opens a regular file of any size for reading by position. Reading can fail with `unreadable`, or with `shrunk` when
 * the file was shortened in the meantime.
 *
 * @throws EspalierError `not-found`, `not-a-file`, `unreadable`
 */
export function openView(path: string, options: { calls?: FileCalls } = {}): FileView {
  const absolute = resolve(path);
  const { calls = nodeFileCalls } = options;
  const { fd, facts } = openRegularFile(absolute, "read", calls);
  const descriptor = new Descriptor(absolute, fd, calls);
  return { ...descriptor.view(Number(facts.size)), close: () => descriptor.close() };
}

/** Returns the result of `act` on the view of {@link openView}, and closes the file, also when `act` throws. */
export function withView<Result>(
  path: string,
  act: (view: FileView) => Result,
  options: { calls?: FileCalls } = {},
): Result {
  const view = openView(path, options);
  try {
    return act(view);
  } finally {
    view.close();
  }
}

/** Maximum bytes of one read call. The system reads at most 2 GiB at once. */
const PIECE = 1 << 30;

/** An open file that is read by position. All views of the file share it. */
export class Descriptor {
  readonly path: string;
  readonly fd: number;
  readonly calls: FileCalls;
  #open = true;
  /** Number of calls that still need the descriptor after the file was closed. */
  #holds = 0;

  constructor(path: string, fd: number, calls: FileCalls) {
    this.path = path;
    this.fd = fd;
    this.calls = calls;
  }

  /** Throws when the file was closed: the number of a closed descriptor can already belong to another file. */
  assertOpen(): void {
    if (!this.#open) throw new EspalierError("closed", `${this.path} was closed; open it again.`);
  }

  /** Fills `target` from `position` on, up to the end of the file; returns the number of bytes. */
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

  /** Returns the first `size` bytes of the file as a view. */
  view(size: number): ByteView {
    return viewOf(size, (offset, target) => {
      if (this.readInto(offset, target) === target.length) return;
      throw new EspalierError(
        "shrunk",
        `${this.path} is shorter than it was when it was read; restore it, or open it again.`,
      );
    });
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

/** Returns the error for a file that cannot be read; `removed` for a file that its server no longer has. */
export function unreadable(path: string, what: string, cause: unknown): EspalierError {
  const code = systemCode(cause) ?? "see cause";
  if (code === "ESTALE")
    return new EspalierError("removed", `${path} is gone from its server (ESTALE); open it again.`, {
      cause,
    });
  return new EspalierError("unreadable", `${path} ${what} (${code}).`, { cause });
}

/** Facts of a file. Identity and size are big integers, because inode numbers exceed 2^53. */
export type FileFacts = Pick<BigIntStats, "dev" | "ino" | "size" | "uid" | "mode" | "mtimeNs">;

/**
 * Calls of this package to the file system, in the shape of `node:fs`. Tests pass calls that fail; programs use the
 * default.
 */
export type FileCalls = typeof nodeFileCalls;

/** The calls of `node:fs`. */
export const nodeFileCalls = {
  /** Opens a file; returns a descriptor. `flags` are those of `fs.constants`. */
  openSync: (path: string, flags: number, mode?: number): number => fs.openSync(path, flags, mode),
  /** Closes a descriptor. Never repeated, even after an error, because the number can belong to another file then. */
  closeSync: (fd: number): void => fs.closeSync(fd),
  /** Writes bytes. With `position` null, writes at the descriptor's own position: the end of a file opened to append. */
  writeSync: (fd: number, bytes: Uint8Array, offset: number, length: number, position: number | null) =>
    fs.writeSync(fd, bytes, offset, length, position),
  /** Reads from `position` into `target` at `offset`; returns the number of bytes, 0 at the end. */
  readSync: (fd: number, target: Uint8Array, offset: number, length: number, position: number) =>
    fs.readSync(fd, target, offset, length, position),
  /** Returns the facts of the open file, even if its path leads to another file now. */
  fstatSync: (fd: number): FileFacts => fs.fstatSync(fd, { bigint: true }),
  /** Sets the permissions; `mode` is nine bits, such as 0o600. */
  fchmodSync: (fd: number, mode: number): void => fs.fchmodSync(fd, mode),
  /** Shortens a file. Never used for lines of a log. */
  ftruncateSync: (fd: number, length: number): void => fs.ftruncateSync(fd, length),
  /** Returns the facts of the file at a path; undefined when there is none. */
  lstatSync: (path: string): FileFacts | undefined =>
    fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }),
  /** Returns when the written bytes are on disk, with the metadata that is needed to read them. */
  fdatasyncSync: (fd: number): void => fs.fdatasyncSync(fd),
  /** Same as `fdatasyncSync`, on another thread. */
  fdatasync: promisify(fs.fdatasync) as (fd: number) => Promise<void>,
  /** Same as `fdatasyncSync`, with all metadata. Used for folders, so that names are durable. */
  fsyncSync: (fd: number): void => fs.fsyncSync(fd),
  /** Same as `fsyncSync`, on another thread. */
  fsync: (fd: number): Promise<void> => promisify(fs.fsync)(fd),
  /** Gives a file a second name; throws `EEXIST` when the name exists. */
  linkSync: (existing: string, path: string): void => fs.linkSync(existing, path),
  /** Replaces a file by another one, atomically. */
  renameSync: (from: string, to: string): void => fs.renameSync(from, to),
  /** Removes a name. */
  unlinkSync: (path: string): void => fs.unlinkSync(path),
  /** Returns the names in a folder, in any order. */
  readdirSync: (path: string): string[] => fs.readdirSync(path),
  /** Returns 12 random hex digits, for the name of a temporary file. */
  randomName: (): string => randomBytes(6).toString("hex"),
};

/**
 * Makes a call that is a part of writing the file at `path`; returns its result. Retries it like {@link uninterrupted}.
 * @throws EspalierError `exists`, `not-found` (no such folder), `write-failed`
 */
export function writingCall<T>(path: string, call: () => T): T {
  try {
    return uninterrupted(call);
  } catch (error) {
    throw writeError(path, error);
  }
}

/** Same as {@link writingCall}, for a call on another thread. */
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
  const failed = (kind: LogErrorCode, message: string) => new EspalierError(kind, message, { cause: error });
  if (code === "EEXIST")
    return failed("exists", `${path} already exists and was not changed; choose another name.`);
  if (isNoFolder(error)) return failed("not-found", `There is no folder for ${path}; create it first.`);
  const cure = "check the permissions of its folder and the free space on the disk";
  return failed("write-failed", `${path} could not be written (${code ?? "see cause"}); ${cure}.`);
}

/** Error codes of systems that cannot sync a folder (Windows; some network and user-space file systems). */
const UNSUPPORTED = new Set(["EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EISDIR", "EBADF"]);

/**
 * Makes the name of a file durable, by a sync of its folder. Without it, a power failure can remove a new name together
 * with its bytes. Does nothing where folders cannot be synced (Windows, some network file systems). Throws the system's
 * error.
 */
export function syncFolderOf(path: string, calls: FileCalls): void {
  // Windows cannot open folders, and journals names without a sync.
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

/** Same as {@link syncFolderOf}, on another thread. */
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
 * Returns a function with which concurrent callers share a sync. A caller during a running sync waits for the next one,
 * which begins after the caller's write. A round begins one turn of the event loop late, so that it includes all writes
 * of the same turn.
 *
 * @returns a function that resolves when a sync that began after its call has ended, and rejects with the error of that
 * sync
 */
export function groupSync(sync: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  /** True until the current round has begun its sync. Writes until then are included in it. */
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

/** Closes a descriptor. The descriptor is gone afterwards, even after an error or a signal. Throws `write-failed`. */
export function closeFile(path: string, fd: number, calls: FileCalls): void {
  try {
    calls.closeSync(fd);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EINTR") return;
    const message = `${path} could not be closed (${code ?? "see cause"}); unsynced data may be lost.`;
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

/** Throws `not-a-file` for a path that is not a regular file; the message names its kind. */
export function checkKind(path: string, facts: FileFacts): void {
  const kind = KINDS.get(Number(facts.mode) & constants.S_IFMT);
  if (kind !== undefined) throw new EspalierError("not-a-file", `${path} is ${kind}`);
}

/** Throws `not-ours` for a file of another user, who could read everything written to it. Windows has no user ids. */
export function checkOwner(path: string, { uid }: FileFacts): void {
  const own = process.geteuid?.();
  if (own === undefined || Number(uid) === own) return;
  throw new EspalierError(
    "not-ours",
    `${path} belongs to user ${uid}, not to ${own}; write as its owner, or to a copy.`,
  );
}

/** Returns whether both are the same file, even under two names. */
export function isSameFile(one: FileFacts, other: FileFacts): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

/**
 * Returns the code of an error of the operating system (`ENOENT`, …), also when it is the cause of an EspalierError;
 * undefined for any other error without a code.
 */
export function systemCode(error: unknown): string | undefined {
  if (error instanceof EspalierError && error.cause !== undefined)
    return systemCode(error.cause) ?? error.code;
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/** Returns whether an error says that a path, or a folder of it, is missing, or that such a folder is a file. */
function isNoFolder(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** Maximum attempts for an interrupted call: enough for a burst of signals, and not endless. */
const ATTEMPTS = 100;

/** Returns whether a call did nothing and can be repeated. */
const isInterrupted = (error: unknown): boolean => {
  const code = systemCode(error);
  return code === "EINTR" || code === "EAGAIN";
};

/**
 * Makes a call; returns its result. Repeats it, up to 100 attempts in all, when it did nothing: a signal interrupted
 * it, or the system asks to try again (`EINTR`, `EAGAIN`).
 */
export function uninterrupted<T>(call: () => T): T {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return call();
    } catch (error) {
      if (!isInterrupted(error) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Same as {@link uninterrupted}, for a call on another thread. */
export async function uninterruptedAsync<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (error) {
      if (!isInterrupted(error) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Permissions of all users except the owner. */
const OTHERS = 0o077n;

/** Error codes of file systems without permissions (FAT, some network mounts). */
const NO_RIGHTS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/**
 * Removes the permissions of other users on an open file. Windows has no such permissions, and reports that every user
 * has them.
 */
export function tightenFile({ path, fd, calls }: Descriptor, { mode }: FileFacts): void {
  if (process.platform === "win32" || (mode & OTHERS) === 0n) return;
  try {
    uninterrupted(() => calls.fchmodSync(fd, Number(mode & ~OTHERS & 0o7777n)));
  } catch (error) {
    const code = systemCode(error);
    if (code !== undefined && NO_RIGHTS.has(code)) return;
    throw new EspalierError(
      "read-only",
      `${path} cannot be made private (${code ?? "see cause"}); open it for reading, or copy it.`,
      { cause: error },
    );
  }
}
