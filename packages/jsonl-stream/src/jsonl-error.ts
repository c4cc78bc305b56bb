/**
 * What went wrong with a line file.
 *
 * | code | meaning |
 * |---|---|
 * | `not-json` | a value to write is not JSON: a function, NaN, a Date, an own `__proto__`, …; the message names its key path |
 * | `too-deep` | a value to write nests deeper than the limit |
 * | `line-too-long` | a line to write is longer than the limit |
 * | `not-found` | no file at this path |
 * | `not-a-file` | a folder, symbolic link, FIFO, socket or device where a regular file is wanted |
 * | `not-ours` | the file to write belongs to another user |
 * | `unreadable` | opening or reading failed for another reason, see `cause` |
 * | `read-only` | a write to a file that was opened for reading, or that may not be written |
 * | `removed` | the path no longer leads to a file |
 * | `changed` | another file stands at the path, or the file was rewritten in place |
 * | `shrunk` | the file is shorter than what was read from it |
 * | `short-write` | fewer bytes than asked for were written: the disk is full or a size limit is reached; not appended |
 * | `write-failed` | the write failed, see `cause`, or its lines could not be found in the file afterwards; not appended |
 * | `sync-failed` | a sync failed: what was written since the last one may not survive a power cut; open the file anew |
 * | `exists` | a file to create is already there; it was left alone |
 * | `closed` | the file was closed |
 */
export type JsonlErrorCode =
  | "not-json"
  | "too-deep"
  | "line-too-long"
  | "not-found"
  | "not-a-file"
  | "not-ours"
  | "unreadable"
  | "read-only"
  | "removed"
  | "changed"
  | "shrunk"
  | "short-write"
  | "write-failed"
  | "sync-failed"
  | "exists"
  | "closed";

/** The one error of this package. Its message never quotes what a file holds. */
export class JsonlError extends Error {
  override readonly name = "JsonlError";
  readonly code: JsonlErrorCode;

  constructor(code: JsonlErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
