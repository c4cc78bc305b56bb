import { randomUUID } from "node:crypto";
import {
  closeSync,
  type Dirent,
  openSync,
  readdirSync,
  readSync,
  realpathSync,
  rmSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ByteView, EspalierError, viewOf } from "@espalier/jsonl-stream";
import { digestOf, type FileView, openView } from "@espalier/jsonl-stream/node";
import { factsOf } from "@espalier/session-tree/node";
import { Decompress } from "fzstd";
import type { SourceFile } from "../import/draft.ts";
import type { PageFile } from "../scratch/space.ts";

/** Maximum number of files that are open at a time. */
const OPEN_FILES = 32;

/**
 * Opens source files, and keeps only a few of them open at a time, even if more are in use. A file that was closed is
 * opened again when it is read, and decompressed again if it is compressed. A file is read up to its size at the first
 * opening.
 */
export class SourceFiles {
  /** Views by path; the most recently used one comes last. */
  readonly #open = new Map<string, FileView>();

  /** @throws EspalierError `not-found`, `unreadable`, `no-room` for a compressed file; reading later throws them too */
  open(path: string): SourceFile {
    const view = this.#lazyView(path);
    let digest: string | undefined;
    return {
      path,
      view,
      digest: () => {
        digest ??= digestOf(view);
        return digest;
      },
    };
  }

  /** Closes all files; a view that is read later opens its file again. */
  close(): void {
    for (const view of this.#open.values()) view.close();
    this.#open.clear();
  }

  #lazyView(path: string): ByteView {
    return viewOf(this.#use(path).size, (offset, target) => this.#use(path).readInto(offset, target));
  }

  #use(path: string): FileView {
    const view = this.#open.get(path) ?? openFile(path);
    this.#open.delete(path);
    this.#open.set(path, view);
    if (this.#open.size > OPEN_FILES) {
      const [oldest, unused] = this.#open.entries().next().value!;
      unused.close();
      this.#open.delete(oldest);
    }
    return view;
  }
}

function openFile(path: string): FileView {
  try {
    // A link is followed: it belongs to the user, and nothing is written through it.
    const view = openView(realpathSync(path));
    if (!path.endsWith(".zst")) return view;
    try {
      return decompressedFile(path, view);
    } finally {
      view.close();
    }
  } catch (cause) {
    const isWorded = cause instanceof EspalierError && !["not-found", "not-a-file"].includes(cause.code);
    throw isWorded ? cause : readError(path, cause);
  }
}

function readError(path: string, cause: unknown): EspalierError {
  const { code } = cause as { code?: unknown };
  if (cause instanceof EspalierError && code === "not-a-file")
    return new EspalierError("unreadable", cause.message, { cause });
  const isMissing = code === "ENOENT" || (cause instanceof EspalierError && code === "not-found");
  return isMissing
    ? new EspalierError("not-found", `There is no file ${path}; check the path.`, { cause })
    : new EspalierError(
        "unreadable",
        `${path} cannot be read (${String(code)}); check its kind and its permissions.`,
        { cause },
      );
}

/** Number of bytes of a compressed file that are read at a time. */
const READ_BLOCK = 1 << 16;

/** Number of bytes to which any file may be decompressed. */
const ALWAYS_ALLOWED = 256 * 1024 * 1024;

/**
 * Maximum ratio for files that become larger than that. Sessions of agents had a ratio of 6 to 9, by `zstd -19 --long`.
 */
const RATIO = 200;

/** Share of the free room that one file may take. */
const SHARE_OF_ROOM = 0.5;

/**
 * Decompresses a zstd file into a temporary file: memory only has the window of the compression, for any size. A
 * JavaScript implementation is used, because Node (22.15) offers only a call for the whole file or an asynchronous
 * stream.
 *
 * @param path - name of the file in messages
 * @param compressed - bytes of the file
 * @throws EspalierError `unreadable` for a file that is not valid zstd, or that is too large when decompressed: more than
 * {@link ALWAYS_ALLOWED} and {@link RATIO} allow, or than half of the free space; `no-room` when the temporary file cannot
 * be written; errors of reading the file
 */
function decompressedFile(path: string, compressed: ByteView): FileView {
  const whole = new TemporaryFile();
  try {
    const view = viewOf(decompressInto(whole, compressed, path), (offset, target) =>
      whole.read(offset, target),
    );
    return { ...view, close: () => whole.close() };
  } catch (error) {
    whole.close();
    throw error;
  }
}

/** Returns the number of written bytes. */
function decompressInto(whole: TemporaryFile, compressed: ByteView, path: string): number {
  const allowed = Math.max(ALWAYS_ALLOWED, compressed.size * RATIO);
  const room = freeRoom() * SHARE_OF_ROOM;
  let size = 0;
  const stream = new Decompress((bytes) => {
    if (size + bytes.length > allowed) throw tooMuch(path, allowed);
    if (size + bytes.length > room) throw noRoom(path, room);
    whole.write(size, bytes);
    size += bytes.length;
  });
  for (let offset = 0, isLast = false; !isLast; offset += READ_BLOCK) {
    // Each call gets a new block, because the decompression keeps bytes of it for its next step.
    const block = compressed.read(offset, READ_BLOCK).slice();
    isLast = block.length === 0;
    try {
      stream.push(block, isLast);
    } catch (cause) {
      if (cause instanceof EspalierError) throw cause;
      throw new EspalierError("unreadable", `${path} is not a valid zstd file; run \`zstd -t\` on it.`, {
        cause,
      });
    }
  }
  return size;
}

function tooMuch(path: string, allowed: number): EspalierError {
  const message = `${path} expands to more than ${inMegabytes(allowed)}, which is too much for a session of its size; if it is a session, decompress it with \`zstd -d\` and import that.`;
  return new EspalierError("unreadable", message);
}

function noRoom(path: string, room: number): EspalierError {
  const message = `${path} expands to more than ${inMegabytes(room)}, half of the free space in ${tmpdir()}; free some space there, or name another folder in TMPDIR.`;
  return new EspalierError("unreadable", message);
}

const inMegabytes = (bytes: number): string => `${Math.floor(bytes / 1e6)} MB`;

/** Returns the number of free bytes in the folder for temporary files. */
function freeRoom(): number {
  try {
    const { bavail, bsize } = statfsSync(tmpdir());
    return bavail * bsize;
  } catch {
    // If the system does not report it, writing fails when there is no room.
    return Number.POSITIVE_INFINITY;
  }
}

/** A found file. It may be a FIFO or a device, which is reported when it is read. */
export interface FoundFile {
  /** Absolute path. */
  path: string;
  /** Time of creation, epoch milliseconds. */
  born: number;
}

/** A folder or file that cannot be read. */
export interface UnreadablePlace {
  path: string;
  /** Error that prevents reading it. */
  problem: EspalierError;
}

/**
 * Finds all wanted files below a folder, or the file itself, wanted or not; none for a missing path. A link to a file is
 * followed; a link to a folder only if it is `place`.
 *
 * @param unreadable - gets each folder and file that cannot be read, including the path itself
 */
export function findFiles(
  place: string,
  isWanted: (path: string) => boolean,
  unreadable: UnreadablePlace[] = [],
): FoundFile[] {
  const found: FoundFile[] = [];
  const attempt = (path: string, look: () => void): void => {
    try {
      look();
    } catch (problem) {
      if (!(problem instanceof EspalierError)) throw problem;
      unreadable.push({ path, problem });
    }
  };
  const folders: string[] = [];
  const take = (path: string): void => {
    const facts = factsOf(path);
    if (facts && !facts.isDirectory()) found.push({ path, born: bornAt(facts) });
    else if (facts && path === place) folders.push(place);
  };
  attempt(place, () => take(place));
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const at = folder;
    attempt(at, () => {
      for (const file of filesIn(at)) {
        const path = join(at, file.name);
        if (file.isDirectory()) folders.push(path);
        else if (isWanted(path)) attempt(path, () => take(path));
      }
    });
  }
  return found;
}

function filesIn(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    // It may have been removed since it was found.
    if (code === "ENOENT") return [];
    const message = `${folder} cannot be searched (${code ?? "see cause"}); check its permissions.`;
    throw new EspalierError("unreadable", message, { cause });
  }
}

/**
 * Returns the time of creation. The time of the last write is used if it is earlier, or if the file system does not record
 * the creation (0).
 */
function bornAt({ birthtimeMs, mtimeMs }: { birthtimeMs: number; mtimeMs: number }): number {
  return birthtimeMs > 0 ? Math.min(birthtimeMs, mtimeMs) : mtimeMs;
}

/**
 * A file that only this process can use: its name is removed directly after it is opened, so that no file is left even
 * when the process is killed.
 */
export class TemporaryFile implements PageFile {
  readonly #folder = tmpdir();
  readonly #handle: number;
  /** Set while the file has a name: some systems cannot remove the name of an open file. */
  #path: string | undefined;

  /** @throws EspalierError `no-room` */
  constructor() {
    this.#path = join(this.#folder, `espalier-${randomUUID()}`);
    this.#handle = this.#try(() => openSync(this.#path!, "wx+", 0o600));
    this.#removeName();
  }

  /**
   * Fills `target` with the bytes at an offset, in bytes.
   *
   * @throws EspalierError `no-room`, also when there are fewer bytes
   */
  read(offset: number, target: Uint8Array): void {
    for (let at = 0; at < target.length; ) {
      const read = this.#try(() => readSync(this.#handle, target, at, target.length - at, offset + at));
      if (read === 0) throw this.#error(new Error(`${at} of ${target.length} bytes could be read.`));
      at += read;
    }
  }

  /**
   * Writes bytes at an offset, in bytes.
   *
   * @throws EspalierError `no-room`
   */
  write(offset: number, bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; )
      at += this.#try(() => writeSync(this.#handle, bytes, at, bytes.length - at, offset + at));
  }

  close(): void {
    closeSync(this.#handle);
    if (this.#path !== undefined) rmSync(this.#path, { force: true });
  }

  #removeName(): void {
    try {
      rmSync(this.#path!);
      this.#path = undefined;
    } catch (error) {
      // Some systems keep the name of an open file; it is removed when the file is closed.
      if ((error as { code?: unknown }).code === "ENOENT") this.#path = undefined;
    }
  }

  #try<Result>(call: () => Result): Result {
    try {
      return call();
    } catch (cause) {
      throw this.#error(cause);
    }
  }

  #error(cause: unknown): EspalierError {
    const message = `Temporary data cannot be kept in ${this.#folder} (${String((cause as { code?: unknown }).code ?? "cut")}); make room there, or name another folder in TMPDIR.`;
    return new EspalierError("no-room", message, { cause });
  }
}
