import { resolve } from "node:path";
import type { ByteView } from "../byte-view.ts";
import { JsonlError } from "../jsonl-error.ts";
import { type Appended, appendWhole } from "./append-whole.ts";
import { Descriptor } from "./descriptor.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { FileTail, type Span } from "./file-tail.ts";
import { syncFolderOf } from "./folder.ts";
import { GroupSync } from "./group-sync.ts";
import { type OpenMode, openRegularFile } from "./regular-file.ts";
import { uninterrupted, uninterruptedAsync } from "./system-error.ts";
import { tightenFile } from "./tighten-file.ts";

/** How a file is opened. */
export interface AppendFileOptions {
  /** `write` appends and makes whole what a crash left; `read` changes nothing, whatever state the file is in. */
  mode: OpenMode;
  /** Make the file, mode 0600, when there is none (`write` only). Default false. */
  create?: boolean;
  /** Take from everybody but the owner whatever rights they have on the file (`write` only). Default false. */
  tighten?: boolean;
  /** Default: the calls of `node:fs`. */
  calls?: FileCalls;
}

/**
 * A line file that several processes append to at once. All calls but `synced` are synchronous.
 *
 * `append` and `takeIn` first look whether this is still the file that was opened, and throw `removed`, `changed` or
 * `shrunk` if not. `append` has written nothing then; only when another writer interfered does it look once more
 * after its write, and an error of that look leaves open whether the lines are in the file.
 */
export interface AppendFile {
  /** Absolute. */
  readonly path: string;
  readonly mode: OpenMode;
  /** Bytes taken in so far: whole lines. */
  readonly size: number;
  /**
   * Everything up to the last look, with the unterminated line that may begin at `size`: another writer may be busy
   * with it, and as soon as it is whole it is taken in. The view stays valid while the file grows.
   */
  view(): ByteView;
  /**
   * Appends lines by one write and finds them in the file before it returns; a newline is written before them when
   * the last line is torn. `[from, to)` in the result is all that was taken in by this call, own lines included.
   * On an error they do not count as appended, but a first part of them may stand in the file.
   *
   * @param lines - lines as `encodeLines` gives them; with no bytes at all this is `takeIn`
   * @throws JsonlError `short-write`, `write-failed`, `read-only`, `sync-failed`, `closed`, `unreadable`
   */
  append(lines: Uint8Array): Appended;
  /** Takes in the lines that became whole since the last look; null when there are none. */
  takeIn(): Span | null;
  /**
   * Returns when everything appended is on disk: fdatasync, and a sync of the folder when this opening made the file.
   *
   * @throws JsonlError `sync-failed`, from then on at each `append` and `sync`: the system may have dropped the data
   *   and would report success the next time
   */
  sync(): void;
  /**
   * As `sync`, without stopping the process meanwhile: one fdatasync on another thread serves everybody who waits.
   * Appends may go on; a promise stands for what was appended before it was asked for.
   */
  synced(): Promise<void>;
  /** Everything else fails with `closed` from then on; who waits for `synced` is still served. */
  close(): void;
}

/**
 * Opens a line file, to follow it or to append to it. Links are not followed, and only a file of our own is written to.
 *
 * @throws JsonlError `not-found`, `not-a-file`, `not-ours`, `read-only`, `unreadable`
 */
export function openAppendFile(path: string, options: AppendFileOptions): AppendFile {
  const absolute = resolve(path);
  const { mode, create = false, tighten = false, calls = nodeFileCalls } = options;
  const { fd, facts, created } = openRegularFile(absolute, mode, create && mode === "write", calls);
  const descriptor = new Descriptor(absolute, fd, calls);
  const tail = firstLook(descriptor, () => {
    if (tighten && mode === "write") tightenFile(descriptor, facts);
    return new FileTail(descriptor, facts);
  });
  let folderIsSynced = !created;
  let syncFailure: JsonlError | undefined;

  const failed = (error: unknown): JsonlError => {
    const message = `${absolute} could not be synced; close it, open it again, and append again what is missing.`;
    syncFailure ??= new JsonlError("sync-failed", message, error);
    return syncFailure;
  };
  const settle = (): void => {
    if (!folderIsSynced) syncFolderOf(absolute, calls);
    folderIsSynced = true;
  };
  const group = new GroupSync(async () => {
    if (syncFailure !== undefined) throw syncFailure;
    try {
      await uninterruptedAsync(() => calls.fdatasync(fd));
      settle();
      if (descriptor.isOpen) tail.noteTime();
    } catch (error) {
      throw failed(error);
    }
  });

  const assertWritable = (): void => {
    descriptor.assertOpen();
    if (mode === "read")
      throw new JsonlError("read-only", `${absolute} was opened for reading; open it for writing.`);
    if (syncFailure !== undefined) throw syncFailure;
  };

  return {
    path: absolute,
    mode,
    get size() {
      return tail.size;
    },
    view: () => descriptor.view(tail.end),
    append(lines) {
      assertWritable();
      return appendWhole(descriptor, tail, lines);
    },
    takeIn() {
      descriptor.assertOpen();
      return tail.look();
    },
    sync() {
      assertWritable();
      try {
        uninterrupted(() => calls.fdatasyncSync(fd));
        settle();
      } catch (error) {
        throw failed(error);
      }
    },
    async synced() {
      assertWritable();
      const release = descriptor.hold();
      try {
        await group.wait();
      } finally {
        release();
      }
    },
    close: () => descriptor.close(),
  };
}

/** A file that cannot be read at its first look is not left open. */
function firstLook<T>(descriptor: Descriptor, look: () => T): T {
  try {
    return look();
  } catch (error) {
    descriptor.close();
    throw error;
  }
}
