import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { resolve } from "node:path";
import { JsonlError } from "../jsonl-error.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { syncFolderOf } from "./folder.ts";
import { checkKind, checkOwner } from "./regular-file.ts";
import { systemCode, uninterrupted } from "./system-error.ts";

export interface WholeFileOptions {
  /** Default 0600. */
  mode?: number;
  calls?: FileCalls;
}

/** Makes a new file appear whole and durable, or not at all. */
export function createWhole(
  path: string,
  chunks: Iterable<Uint8Array>,
  options: WholeFileOptions = {},
): void {
  const absolute = resolve(path);
  const { mode = 0o600, calls = nodeFileCalls } = options;
  const draft = writeDraft(absolute, chunks, mode, calls);
  try {
    calls.linkSync(draft, absolute);
  } catch (error) {
    if (systemCode(error) === "EEXIST")
      throw new JsonlError("exists", `${absolute} is already there; choose another name.`, error);
    throw new JsonlError("write-failed", `${absolute} could not be created.`, error);
  } finally {
    calls.unlinkSync(draft);
  }
  syncFolderOf(absolute, calls);
}

export interface ReplaceWholeOptions extends WholeFileOptions {
  /** The path that keeps the original. */
  keepAs: string;
  /** Refuse with `changed` when the original is of another size by now: somebody appended to it. */
  expectedSize?: number;
}

/** Puts another whole file under a name and keeps the original under `keepAs`. */
export function replaceWhole(path: string, chunks: Iterable<Uint8Array>, options: ReplaceWholeOptions): void {
  const absolute = resolve(path);
  const keepAs = resolve(options.keepAs);
  const { mode = 0o600, expectedSize, calls = nodeFileCalls } = options;
  const original = calls.lstatSync(absolute);
  if (!original) throw new JsonlError("not-found", `There is no file ${absolute}.`);
  checkKind(absolute, original);
  checkOwner(absolute, original);
  const draft = writeDraft(absolute, chunks, mode, calls);
  try {
    const kept = calls.lstatSync(keepAs);
    if (kept === undefined) calls.linkSync(absolute, keepAs);
    else if (kept.ino !== original.ino || kept.dev !== original.dev) {
      throw new JsonlError("exists", `${keepAs} is already there and is another file; move it away.`);
    }
    if (expectedSize !== undefined && Number(calls.lstatSync(absolute)?.size) !== expectedSize) {
      throw new JsonlError("changed", `${absolute} was written to meanwhile; read it again.`);
    }
    calls.renameSync(draft, absolute);
  } catch (error) {
    calls.unlinkSync(draft);
    throw error;
  }
  syncFolderOf(absolute, calls);
}

function writeDraft(path: string, chunks: Iterable<Uint8Array>, mode: number, calls: FileCalls): string {
  const draft = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0);
  const fd = calls.openSync(draft, flags, mode);
  for (const chunk of chunks) {
    for (let done = 0; done < chunk.length; ) {
      done += uninterrupted(() => calls.writeSync(fd, chunk, done, chunk.length - done, null));
    }
  }
  calls.fsyncSync(fd);
  calls.closeSync(fd);
  return draft;
}
