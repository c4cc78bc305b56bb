import { constants } from "node:fs";
import { dirname, resolve } from "node:path";
import { EspalierError } from "../error.ts";
import type { ByteView } from "../line-window.ts";
import {
  checkKind,
  checkOwner,
  closeFile,
  type FileCalls,
  type FileFacts,
  groupSync,
  isSameFile,
  nodeFileCalls,
  openView,
  syncFolderOf,
  syncFolderOfAsync,
  systemCode,
  uninterrupted,
  writingCall,
  writingCallAsync,
} from "./files.ts";

/**
 * Makes a new file appear whole and on disk: written beside, synced, put under its name without overwriting, the
 * folder synced. When it throws, there is no file and nothing is left of it.
 *
 * @throws EspalierError `exists`, `not-found` (no such folder), `short-write`, `write-failed`; whatever `chunks` throws
 */
export function createWhole(
  path: string,
  chunks: Iterable<Uint8Array>,
  options: WholeFileOptions = {},
): void {
  const absolute = resolve(path);
  const { mode = 0o600, calls = nodeFileCalls } = options;
  const made = [writeDraft(absolute, chunks, mode, calls)];
  try {
    putInPlace(made, absolute, mode, calls);
    writingCall(absolute, () => syncFolderOf(absolute, calls));
  } catch (error) {
    discard(made, calls);
    throw error;
  }
}

/**
 * As {@link createWhole}, with the syncs on other threads. Files that are made at the same time share a round: all drafts
 * are written, all are synced, all get their names, and each folder is synced once. So a file system commits them
 * together. Each call returns, or throws, for its own file.
 */
export async function createWholeAsync(
  path: string,
  chunks: Iterable<Uint8Array>,
  options: WholeFileOptions = {},
): Promise<void> {
  const absolute = resolve(path);
  const { mode = 0o600, calls = nodeFileCalls } = options;
  const { draft, fd } = fillDraft(absolute, chunks, mode, calls);
  const file: MadeFile = { path: absolute, fd, mode, made: [draft] };
  const makers = makersOf(calls);
  makers.waiting.push(file);
  await makers.round();
  if (!("failure" in file)) return;
  discard(file.made, calls);
  throw file.failure;
}

/** A file that a round makes. */
interface MadeFile {
  path: string;
  fd: number;
  mode: number;
  /** Paths to remove after a failure: the draft, then also the file. */
  made: string[];
  failure?: unknown;
}

/** Files that wait for the next round, and the round. */
interface Makers {
  waiting: MadeFile[];
  round: () => Promise<void>;
}

/** For each way of calling the system. */
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
  for (const file of files) await attempt(file, () => putInPlace(file.made, file.path, file.mode, calls));
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

/** Gives the draft in `made` its name. `made` is what has to go after a failure: the draft, then also the name. */
function putInPlace(made: string[], path: string, mode: number, calls: FileCalls): void {
  const draft = made[0]!;
  if (linkNew(draft, path, calls)) {
    made.push(path);
    writingCall(path, () => calls.unlinkSync(draft));
  } else {
    claim(path, mode, calls);
    made.push(path);
    writingCall(path, () => calls.renameSync(draft, path));
  }
}

/**
 * Takes the name with an empty file, for systems without hard links: the rename over it then overwrites no other
 * file.
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
export interface ReplaceWholeOptions extends WholeFileOptions {
  /** Default: that of the original. */
  mode?: number;
  /** The name under which the original stays. It may already be there, as its second name or with its bytes. */
  keepAs: string;
  /** Bytes the original must still have just before it is replaced, lest lines appended meanwhile be left behind. */
  expectedSize?: number;
}

/**
 * Puts another whole file under a name and keeps the original under another: written beside, read back, synced, the
 * original linked to `keepAs`, the new one renamed over it, the folder synced. When it throws, the original has its
 * name, and perhaps already the other one too; only when the very last sync failed, the new file is in place.
 *
 * The last look at the original and the rename are two calls: callers see to it that no two do this at once.
 *
 * @throws EspalierError `not-found`, `not-a-file`, `not-ours`; `exists` (`keepAs` is another file), `changed`
 *   (`expectedSize`), `short-write`, `write-failed`; whatever `chunks` throws
 */
export function replaceWhole(path: string, chunks: Iterable<Uint8Array>, options: ReplaceWholeOptions): void {
  const absolute = resolve(path);
  const keepAs = resolve(options.keepAs);
  const { expectedSize, calls = nodeFileCalls } = options;
  const original = lookAt(absolute, calls);
  const { mode = Number(original.mode) & 0o777 } = options;
  const draft = writeDraft(absolute, chunks, mode, calls, true);
  let copy: string[] = [];
  try {
    copy = keepOriginal(absolute, original, keepAs, calls);
    writingCall(keepAs, () => syncFolderOf(keepAs, calls));
    const now = lookAt(absolute, calls);
    if (!isSameFile(now, original) || (expectedSize !== undefined && Number(now.size) !== expectedSize)) {
      throw new EspalierError(
        "changed",
        `${absolute} was written to meanwhile; read it again and replace it then.`,
      );
    }
    writingCall(absolute, () => calls.renameSync(draft, absolute));
  } catch (error) {
    discard([draft, ...copy], calls);
    throw error;
  }
  writingCall(absolute, () => syncFolderOf(absolute, calls));
}

function lookAt(path: string, calls: FileCalls): FileFacts {
  const facts = writingCall(path, () => calls.lstatSync(path));
  if (facts === undefined) throw new EspalierError("not-found", `There is no file ${path} to replace.`);
  checkKind(path, facts);
  checkOwner(path, facts);
  return facts;
}

/**
 * Gives the original its other name, or copies it where there are no links. Returns the copy, which a failure later on
 * removes; a link stays, since another process replacing the same file may count on it to keep the original.
 */
function keepOriginal(path: string, original: FileFacts, keepAs: string, calls: FileCalls): string[] {
  const kept = writingCall(keepAs, () => calls.lstatSync(keepAs));
  if (kept !== undefined) {
    if (isSameFile(kept, original) || holdsSame(keepAs, path, calls)) return [];
    const message = `${keepAs} is already there, where ${path} is to be kept as it was; move it away first.`;
    throw new EspalierError("exists", message);
  }
  if (linkNew(path, keepAs, calls)) return [];
  const view = openView(path, { calls });
  try {
    createWhole(keepAs, pieces(view), { mode: Number(original.mode) & 0o777, calls });
  } finally {
    view.close();
  }
  return [keepAs];
}

/** True for two files with the same bytes: an attempt that did not get further left one of them. */
function holdsSame(path: string, other: string, calls: FileCalls): boolean {
  const one = openView(path, { calls });
  try {
    const two = openView(other, { calls });
    try {
      if (one.size !== two.size) return false;
      for (let offset = 0; offset < one.size; offset += PIECE)
        if (Buffer.compare(one.read(offset, PIECE), two.read(offset, PIECE)) !== 0) return false;
      return true;
    } finally {
      two.close();
    }
  } finally {
    one.close();
  }
}

/** Bytes that are read at a time. */
const PIECE = 1 << 20;

function* pieces(view: ByteView): Generator<Uint8Array, void> {
  for (let offset = 0; offset < view.size; offset += PIECE) yield view.read(offset, PIECE);
}

/** Options of writing a whole file. */
export interface WholeFileOptions {
  /** Default 0600. */
  mode?: number;
  /** Default: the calls of `node:fs`. */
  calls?: FileCalls;
}

const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);

/**
 * Writes a whole file beside `path`, as `<path>.<12 hex digits>.tmp`, and syncs it. Returns its path; when it
 * throws, nothing is left of it. With `isReadBack` each block is found in the file before the next is written.
 */
function writeDraft(
  path: string,
  chunks: Iterable<Uint8Array>,
  mode: number,
  calls: FileCalls,
  isReadBack = false,
): string {
  const { draft, fd } = fillDraft(path, chunks, mode, calls, isReadBack);
  try {
    try {
      writingCall(path, () => calls.fsyncSync(fd));
    } catch (error) {
      discardDescriptor(fd, calls);
      throw error;
    }
    closeFile(path, fd, calls);
  } catch (error) {
    discard([draft], calls);
    throw error;
  }
  return draft;
}

/** As {@link writeDraft}, before the sync: the draft is open. */
function fillDraft(
  path: string,
  chunks: Iterable<Uint8Array>,
  mode: number,
  calls: FileCalls,
  isReadBack = false,
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
  } catch (error) {
    discardDescriptor(fd, calls);
    discard([draft], calls);
    throw error;
  }
  return { draft, fd };
}

/** Bytes that are collected before they are written: a call for each line would cost more than its bytes. */
const BLOCK = 1 << 18;

/** Bytes of the first block: a new session is a header. */
const FIRST_BLOCK = 1 << 12;

/** The same bytes in larger pieces; each is good until the next is asked for. */
function* inBlocks(chunks: Iterable<Uint8Array>): Generator<Uint8Array, void> {
  let block = new Uint8Array(FIRST_BLOCK);
  let length = 0;
  for (const chunk of chunks) {
    if (length + chunk.length > BLOCK) {
      if (length > 0) yield block.subarray(0, length);
      length = 0;
    }
    if (chunk.length > BLOCK) yield chunk;
    else {
      if (length + chunk.length > block.length) {
        const larger = new Uint8Array(BLOCK);
        larger.set(block.subarray(0, length));
        block = larger;
      }
      block.set(chunk, length);
      length += chunk.length;
    }
  }
  if (length > 0) yield block.subarray(0, length);
}

/** Removes files after a failure, which says more than another failure here could. */
export function discard(paths: readonly string[], calls: FileCalls): void {
  for (const path of paths) {
    // Twice: a call that failed by chance is no reason to leave a file behind.
    for (let attempt = 0; attempt < 2; attempt += 1) {
      try {
        uninterrupted(() => calls.unlinkSync(path));
        break;
      } catch {
        // Already gone, or not removable: the caller throws what went wrong first.
      }
    }
  }
}

function discardDescriptor(fd: number, calls: FileCalls): void {
  try {
    calls.closeSync(fd);
  } catch {
    // It is gone all the same, and what was written is thrown away.
  }
}

/** Throws `write-failed` where the file does not hold at `position` what was written there. */
function assertHolds(path: string, fd: number, position: number, block: Uint8Array, calls: FileCalls): void {
  const found = new Uint8Array(block.length);
  for (let done = 0; done < found.length; ) {
    const rest = found.length - done;
    const count = writingCall(path, () => calls.readSync(fd, found, done, rest, position + done));
    if (count === 0) break;
    done += count;
  }
  if (Buffer.compare(found, block) === 0) return;
  const message = `What was written for ${path} was not found again; its disk may be damaged. The file is as it was.`;
  throw new EspalierError("write-failed", message);
}

function writeAll(path: string, fd: number, chunk: Uint8Array, calls: FileCalls): void {
  for (let done = 0; done < chunk.length; ) {
    const rest = chunk.length - done;
    const count = writingCall(path, () => calls.writeSync(fd, chunk, done, rest, null));
    // A disk that is filling up takes a part first; taking nothing without an error would go on for ever.
    if (count === 0)
      throw new EspalierError("short-write", `Nothing more fitted into ${path}; make room on its disk.`);
    done += count;
  }
}

/** Error codes of systems without hard links: FAT, some network and user-space file systems. */
const UNSUPPORTED = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"]);

/**
 * Gives a file a second name that nothing else has; false where the file system cannot.
 *
 * @throws EspalierError `exists`
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
