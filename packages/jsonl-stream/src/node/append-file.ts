import { resolve } from "node:path";
import type { ByteView } from "../byte-view.ts";
import { JsonlError } from "../jsonl-error.ts";
import { appendWhole } from "./append-whole.ts";
import { Descriptor } from "./descriptor.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { FileTail } from "./file-tail.ts";
import { syncFolderOf } from "./folder.ts";
import { type OpenMode, openRegularFile } from "./regular-file.ts";

/** Bytes `[from, to)` of a file: whole lines. */
export interface Span {
  from: number;
  to: number;
}

/** Where appended lines stand. */
export interface Appended extends Span {
  /** Where the first own line begins. */
  offset: number;
  /** Bytes of the own lines, the last newline included. */
  length: number;
}

export interface AppendFileOptions {
  mode: OpenMode;
  /** Make the file, mode 0600, when there is none. Default false. */
  create?: boolean;
  calls?: FileCalls;
}

/**
 * A line file that several processes may append to at once. All calls are synchronous.
 *
 * `append` and `takeIn` first look at the file and throw, with nothing written, `removed`, `changed` or `shrunk` when
 * it is no longer what was opened.
 */
export interface AppendFile {
  /** Absolute. */
  readonly path: string;
  readonly mode: OpenMode;
  /** Bytes taken in so far: whole lines. */
  readonly size: number;
  /**
   * Everything up to the last look, an unterminated last line included (which begins at `size`; another
   * writer may be writing it, and once it is whole it is taken in). Stays valid while the file grows.
   */
  view(): ByteView;
  /**
   * Appends whole lines by one write and finds them in the file before it returns. A leading newline keeps
   * them off a torn last line. `[from, to)` in the result is everything new since the last look, own lines included.
   *
   * @param lines - lines as `encodeLines` gives them; no bytes at all only take in
   * @throws JsonlError `short-write`, `write-failed`: not appended, though a part may stand in the file as a torn line
   *   or a prefix of the lines; `read-only`, `sync-failed`, `closed`, `unreadable`
   */
  append(lines: Uint8Array): Appended;
  /** Takes in the whole lines that were appended since the last look; null when there are none. */
  takeIn(): Span | null;
  /**
   * Returns when everything written is on disk (fdatasync; the folder too when this opening made the file).
   *
   * @throws JsonlError `sync-failed`, final for this opening: the system may have dropped the data and forgotten the failure
   */
  sync(): void;
  close(): void;
}

/**
 * Opens a line file to append to and to follow. Only a regular file of our own is written to; links are not followed.
 *
 * @throws JsonlError `not-found`, `not-a-file`, `not-ours`, `read-only`, `unreadable`
 */
export function openAppendFile(path: string, options: AppendFileOptions): AppendFile {
  const absolute = resolve(path);
  const { mode, create = false, calls = nodeFileCalls } = options;
  const { fd, facts, created } = openRegularFile(absolute, mode, create && mode === "write", calls);
  const descriptor = new Descriptor(absolute, fd, calls);
  const tail = new FileTail(descriptor, facts);
  let folderSynced = !created;
  let failedSync: unknown;

  const assertWritable = (): void => {
    descriptor.assertOpen();
    if (mode === "read")
      throw new JsonlError("read-only", `${absolute} was opened for reading; open it for writing.`);
    if (failedSync === undefined) return;
    throw new JsonlError(
      "sync-failed",
      `An earlier sync of ${absolute} failed; close it and open it again.`,
      failedSync,
    );
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
      const from = tail.size;
      tail.look();
      return tail.size > from ? { from, to: tail.size } : null;
    },
    sync() {
      assertWritable();
      try {
        calls.fdatasyncSync(fd);
        if (!folderSynced) syncFolderOf(absolute, calls);
        folderSynced = true;
      } catch (error) {
        failedSync = error;
        const message = `${absolute} could not be synced; what was written since the last sync may be lost at a power cut.`;
        throw new JsonlError("sync-failed", message, error);
      }
    },
    close: () => descriptor.close(),
  };
}
