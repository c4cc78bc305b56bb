import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { dirname, resolve } from "node:path";
import { EspalierError } from "../error.ts";
import type { ByteView } from "../scan.ts";
import {
  checkKind,
  checkOwner,
  closeFile,
  type FileCalls,
  type FileFacts,
  groupSync,
  isSameFile,
  nodeFileCalls,
  syncFolderOf,
  syncFolderOfAsync,
  systemCode,
  uninterrupted,
  withView,
  writingCall,
  writingCallAsync,
} from "./files.ts";

/**
 * Creates a whole file, durably: writes it under a temporary name, syncs it, gives it its name without overwriting, and
 * syncs the folder. When it throws, neither the new file nor the temporary one is left, and with `replaces` an older
 * file is unchanged unless only the last sync failed.
 *
 * @throws EspalierError `exists`, `not-found` (no such folder), `short-write`, `write-failed`, and the errors of
 * `chunks`
 */
export function createWhole(path: string, chunks: Iterable<Uint8Array>, given: WholeFileOptions = {}): void {
  const absolute = resolve(path);
  const options = { calls: nodeFileCalls, ...given };
  const { calls, isDurable = true } = options;
  const made = [writeDraft(absolute, chunks, options)];
  try {
    putInPlace(made, absolute, options);
    if (isDurable) writingCall(absolute, () => syncFolderOf(absolute, calls));
  } catch (error) {
    discard(made, calls);
    throw error;
  }
}

/**
 * Same as {@link createWhole}, with the syncs on other threads. Files that are created at the same time share a round:
 * all drafts are written, then all are synced, all get their names, and each folder is synced once, so a file system
 * commits them together. Each call returns or throws for its own file.
 */
export async function createWholeAsync(
  path: string,
  chunks: Iterable<Uint8Array>,
  given: Omit<WholeFileOptions, "isDurable"> = {},
): Promise<void> {
  const absolute = resolve(path);
  const options = { calls: nodeFileCalls, ...given };
  const { calls } = options;
  const { draft, fd } = fillDraft(absolute, chunks, options);
  const file: MadeFile = { path: absolute, fd, options, made: [draft] };
  const makers = makersOf(calls);
  makers.waiting.push(file);
  await makers.round();
  if (!("failure" in file)) return;
  discard(file.made, calls);
  throw file.failure;
}

interface MadeFile {
  path: string;
  fd: number;
  options: DraftOptions;
  /** Paths to remove after a failure: the draft, later also the file. */
  made: string[];
  failure?: unknown;
}

/** Files that wait for the next round, and the function that runs a round. */
interface Makers {
  waiting: MadeFile[];
  round: () => Promise<void>;
}

/** Makers for each set of calls to the file system. */
const makersByCalls = new WeakMap<FileCalls, Makers>();

function makersOf(calls: FileCalls): Makers {
  const known = makersByCalls.get(calls);
  if (known) return known;
  const waiting: MadeFile[] = [];
  const makers = { waiting, round: groupSync(() => makeAll(waiting.splice(0), calls)) };
  makersByCalls.set(calls, makers);
  return makers;
}

async function makeAll(files: readonly MadeFile[], calls: FileCalls): Promise<void> {
  await Promise.all(files.map((file) => attempt(file, () => syncAndClose(file, calls))));
  for (const file of files) await attempt(file, () => putInPlace(file.made, file.path, file.options));
  const folders = new Map<string, Promise<void>>();
  await Promise.all(
    files.map((file) =>
      attempt(file, () => {
        const folder = dirname(file.path);
        const synced =
          folders.get(folder) ?? writingCallAsync(file.path, () => syncFolderOfAsync(file.path, calls));
        folders.set(folder, synced);
        return synced;
      }),
    ),
  );
}

/** Runs a step for a file that has not failed. Keeps a failure for the caller that creates this file. */
async function attempt(file: MadeFile, step: () => void | Promise<void>): Promise<void> {
  if ("failure" in file) return;
  try {
    await step();
  } catch (error) {
    file.failure = error;
  }
}

async function syncAndClose({ path, fd }: MadeFile, calls: FileCalls): Promise<void> {
  try {
    await writingCallAsync(path, () => calls.fsync(fd));
  } catch (error) {
    discardDescriptor(fd, calls);
    throw error;
  }
  closeFile(path, fd, calls);
}

/** Gives the draft in `made` its final name. Adds the name to `made`, which lists the paths to remove after a failure. */
function putInPlace(made: string[], path: string, { mode = 0o600, replaces, calls }: DraftOptions): void {
  const draft = made[0]!;
  if (replaces) writingCall(path, () => calls.renameSync(draft, path));
  else if (linkNew(draft, path, calls)) {
    made.push(path);
    writingCall(path, () => calls.unlinkSync(draft));
  } else {
    claim(path, mode, calls);
    made.push(path);
    writingCall(path, () => calls.renameSync(draft, path));
  }
}

/**
 * Creates an empty file with the final name, for systems without hard links. Renaming over it then cannot overwrite
 * another file.
 */
function claim(path: string, mode: number, calls: FileCalls): void {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  closeFile(
    path,
    writingCall(path, () => calls.openSync(path, flags, mode)),
    calls,
  );
}

/** Options of replacing a file. */
export interface ReplaceWholeOptions {
  /** Name under which the original is kept. It can exist already, as a second name or a copy of the original. */
  keepAs: string;
  /**
   * Size in bytes that the original must still have just before it is replaced, so that no lines appended in the
   * meantime are lost.
   */
  expectedSize: number;
  /** Calls to the file system. Default: those of `node:fs`. */
  calls?: FileCalls;
}

/**
 * Replaces a file as a whole and keeps the original under another name. Writes the new file, with the permissions of
 * the original, under a temporary name, reads it back and syncs it, links the original to `keepAs`, renames the new file
 * over the original, and syncs the folder. When it throws, the original still has its name, and maybe also the second
 * one. Only if the last sync fails, the new file is in place.
 *
 * The last check of the original and the rename are two calls. Callers must ensure that no two replacements run at
 * once.
 *
 * @throws EspalierError `not-found`, `not-a-file`, `not-ours`; `exists` (`keepAs` is another file); `changed` (another
 * file has the path, or the size is not `expectedSize`); `short-write`, `write-failed`, and the errors of `chunks`
 */
export function replaceWhole(path: string, chunks: Iterable<Uint8Array>, options: ReplaceWholeOptions): void {
  const absolute = resolve(path);
  const keepAs = resolve(options.keepAs);
  const { expectedSize, calls = nodeFileCalls } = options;
  const original = lookAt(absolute, calls);
  const draft = writeDraft(absolute, chunks, { mode: permissionsOf(original), calls, isReadBack: true });
  let copy: string[] = [];
  try {
    copy = keepOriginal(absolute, original, keepAs, calls);
    writingCall(keepAs, () => syncFolderOf(keepAs, calls));
    const now = lookAt(absolute, calls);
    if (!isSameFile(now, original) || Number(now.size) !== expectedSize) {
      throw new EspalierError(
        "changed",
        `${absolute} was changed in the meantime; read it again, then replace it.`,
      );
    }
    writingCall(absolute, () => calls.renameSync(draft, absolute));
  } catch (error) {
    discard([draft, ...copy], calls);
    throw error;
  }
  writingCall(absolute, () => syncFolderOf(absolute, calls));
}

const permissionsOf = ({ mode }: FileFacts): number => Number(mode) & 0o777;

function lookAt(path: string, calls: FileCalls): FileFacts {
  const facts = writingCall(path, () => calls.lstatSync(path));
  if (facts === undefined) throw new EspalierError("not-found", `There is no file ${path} to replace.`);
  checkKind(path, facts);
  checkOwner(path, facts);
  return facts;
}

/**
 * Gives the original its second name, or copies it on systems without links. Returns the copy, which a later failure
 * removes. A link is not removed, because another process that replaces the same file may rely on it.
 */
function keepOriginal(path: string, original: FileFacts, keepAs: string, calls: FileCalls): string[] {
  const kept = writingCall(keepAs, () => calls.lstatSync(keepAs));
  if (kept !== undefined) {
    if (isSameFile(kept, original) || holdsSame(keepAs, path, calls)) return [];
    const message = `${keepAs} already exists, and the original of ${path} gets this name; move it away first.`;
    throw new EspalierError("exists", message);
  }
  if (linkNew(path, keepAs, calls)) return [];
  const mode = permissionsOf(original);
  withView(path, (view) => createWhole(keepAs, viewPieces(view), { mode, calls }), { calls });
  return [keepAs];
}

/** Returns whether two files have the same bytes: an earlier, unfinished attempt may have left a copy. */
function holdsSame(path: string, other: string, calls: FileCalls): boolean {
  const isSame = (one: ByteView, two: ByteView) => one.size === two.size && digestOf(one) === digestOf(two);
  return withView(path, (one) => withView(other, (two) => isSame(one, two), { calls }), { calls });
}

/** Bytes that are read at once. */
const PIECE = 1 << 20;

/** Yields the bytes of a view, in pieces of at most 1 MiB. */
function* viewPieces(view: ByteView): Generator<Uint8Array, void> {
  for (let at = 0; at < view.size; at += PIECE) yield view.read(at, PIECE);
}

/** Returns the SHA-256 of the first `size` bytes of a view, in hex. */
export function digestOf(view: ByteView, size = view.size): string {
  const hash = createHash("sha256");
  const block = new Uint8Array(Math.min(PIECE, size));
  for (let at = 0; at < size; at += block.length) {
    const count = view.readInto(at, block);
    hash.update(block.subarray(0, Math.min(count, size - at)));
  }
  return hash.digest("hex");
}

/** Options of writing a whole file. */
export interface WholeFileOptions {
  /** Permissions of the file, before the umask. Default 0600. */
  mode?: number;
  /** True to replace an older file, atomically: readers find the older file or the new one. Default false: `exists`. */
  replaces?: boolean;
  /** False to write without syncs, so that a power failure can lose the file, or leave it empty. Default true. */
  isDurable?: boolean;
  /** Calls to the file system. Default: those of `node:fs`. */
  calls?: FileCalls;
}

/** Options of writing a draft. */
interface DraftOptions extends WholeFileOptions {
  calls: FileCalls;
  /** True to read each block back before the next one is written. */
  isReadBack?: boolean;
}

const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

/**
 * Writes a whole file next to `path`, as `<path>.<12 hex digits>.tmp`, and syncs it unless `isDurable` is false. Returns
 * its path. When it throws, the file is removed.
 */
function writeDraft(path: string, chunks: Iterable<Uint8Array>, options: DraftOptions): string {
  const { draft, fd } = fillDraft(path, chunks, { isDurable: true, ...options });
  try {
    closeFile(path, fd, options.calls);
  } catch (error) {
    discard([draft], options.calls);
    throw error;
  }
  return draft;
}

/** Same as {@link writeDraft}, but the draft stays open, and is synced only if `isDurable` is true. */
function fillDraft(
  path: string,
  chunks: Iterable<Uint8Array>,
  { mode = 0o600, calls, isReadBack, isDurable }: DraftOptions,
): { draft: string; fd: number } {
  const draft = `${path}.${calls.randomName()}.tmp`;
  const fd = writingCall(path, () => calls.openSync(draft, FLAGS, mode));
  try {
    let end = 0;
    for (const block of inBlocks(chunks)) {
      writeAll(path, fd, block, calls);
      if (isReadBack) assertHolds(path, fd, end, block, calls);
      end += block.length;
    }
    if (isDurable) writingCall(path, () => calls.fsyncSync(fd));
  } catch (error) {
    discardDescriptor(fd, calls);
    discard([draft], calls);
    throw error;
  }
  return { draft, fd };
}

/** Bytes that are collected for one write: a call per line would cost more than its bytes. */
const BLOCK = 1 << 18;

/** Yields the same bytes in larger pieces. Each piece is valid until the next one is requested. */
function* inBlocks(chunks: Iterable<Uint8Array>): Generator<Uint8Array, void> {
  // Not filled with zeros: a new session is only a header.
  const block = Buffer.allocUnsafeSlow(BLOCK);
  let length = 0;
  for (const chunk of chunks) {
    if (length + chunk.length > BLOCK) {
      if (length > 0) yield block.subarray(0, length);
      length = 0;
    }
    if (chunk.length > BLOCK) yield chunk;
    else {
      block.set(chunk, length);
      length += chunk.length;
    }
  }
  if (length > 0) yield block.subarray(0, length);
}

/** Removes files after a failure. Errors are ignored, because the first failure says more. */
export function discard(paths: readonly string[], calls: FileCalls): void {
  for (const path of paths) {
    // Twice, so that one randomly failing call does not leave a file behind.
    for (let attempt = 0; attempt < 2; attempt += 1) {
      try {
        uninterrupted(() => calls.unlinkSync(path));
        break;
      } catch {
        // Already gone, or not removable: the caller throws the first error.
      }
    }
  }
}

function discardDescriptor(fd: number, calls: FileCalls): void {
  try {
    calls.closeSync(fd);
  } catch {
    // The descriptor is gone after an error too, and the written bytes are not needed.
  }
}

/** Throws `write-failed` when a block is not in the file at `position`. */
function assertHolds(path: string, fd: number, position: number, block: Uint8Array, calls: FileCalls): void {
  const found = new Uint8Array(block.length);
  for (let done = 0; done < found.length; ) {
    const rest = found.length - done;
    const count = writingCall(path, () => calls.readSync(fd, found, done, rest, position + done));
    if (count === 0) break;
    done += count;
  }
  if (Buffer.compare(found, block) === 0) return;
  const message = `What was written for ${path} could not be read back; its disk may be damaged. The file is unchanged.`;
  throw new EspalierError("write-failed", message);
}

function writeAll(path: string, fd: number, chunk: Uint8Array, calls: FileCalls): void {
  for (let done = 0; done < chunk.length; ) {
    const rest = chunk.length - done;
    const count = writingCall(path, () => calls.writeSync(fd, chunk, done, rest, null));
    // A disk that is nearly full writes a part first. Zero bytes without an error would loop forever.
    if (count === 0)
      throw new EspalierError(
        "short-write",
        `No more bytes could be written to ${path}; make room on its disk.`,
      );
    done += count;
  }
}

/** Error codes of systems without hard links: FAT, some network and user-space file systems. */
const UNSUPPORTED = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"]);

/**
 * Gives a file a second name that must not exist, and returns true; returns false when the file system has no hard
 * links.
 *
 * @throws EspalierError `exists`, `not-found`, `write-failed`
 */
export function linkNew(existing: string, path: string, calls: FileCalls): boolean {
  return writingCall(path, () => {
    try {
      calls.linkSync(existing, path);
      return true;
    } catch (error) {
      if (UNSUPPORTED.has(systemCode(error) ?? "")) return false;
      throw error;
    }
  });
}
