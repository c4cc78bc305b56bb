import { constants } from "node:fs";
import { JsonlError } from "../jsonl-error.ts";
import type { FileCalls, FileFacts } from "./file-calls.ts";
import { systemCode, uninterrupted } from "./system-error.ts";

/** How a file is opened. Writing means appending, and reading back what was appended. */
export type OpenMode = "read" | "write";

export interface OpenedFile {
  fd: number;
  facts: FileFacts;
  /** True when this call made the file. */
  created: boolean;
}

// Without O_NOFOLLOW (Windows) the look before opening must do. O_NONBLOCK: opening a FIFO must not hang.
const SAFE = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const FLAGS: Record<OpenMode, number> = {
  read: constants.O_RDONLY | SAFE,
  write: constants.O_RDWR | constants.O_APPEND | SAFE,
};

/** Opens a regular file and nothing else, looking before and after, since the path may change in between. */
export function openRegularFile(path: string, mode: OpenMode, create: boolean, calls: FileCalls): OpenedFile {
  const before = attempt(path, mode, () => calls.lstatSync(path));
  if (before) checkKind(path, before);
  else if (!create) throw new JsonlError("not-found", `There is no file ${path}.`);
  const created = before === undefined;
  const flags = created ? FLAGS[mode] | constants.O_CREAT | constants.O_EXCL : FLAGS[mode];
  const fd = attempt(path, mode, () => uninterrupted(() => calls.openSync(path, flags, 0o600)));
  try {
    const facts = attempt(path, mode, () => calls.fstatSync(fd));
    checkKind(path, facts);
    if (mode === "write") checkOwner(path, facts);
    return { fd, facts, created };
  } catch (error) {
    calls.closeSync(fd);
    throw error;
  }
}

/** Refuses whatever is no regular file, saying what it is. */
export function checkKind(path: string, facts: FileFacts): void {
  const kind = KINDS.get(Number(facts.mode) & constants.S_IFMT);
  if (kind !== undefined) throw new JsonlError("not-a-file", `${path} is ${kind}`);
}

const KINDS = new Map<number, string>([
  [constants.S_IFLNK, "a symbolic link, which is not followed; name the file it leads to."],
  [constants.S_IFDIR, "a folder; name a file in it."],
  [constants.S_IFIFO, "a FIFO; name a regular file."],
  [constants.S_IFSOCK, "a socket; name a regular file."],
  [constants.S_IFCHR, "a device; name a regular file."],
  [constants.S_IFBLK, "a device; name a regular file."],
]);

/** Refuses to write where another user could have laid out a file for us. */
export function checkOwner(path: string, { uid }: FileFacts): void {
  const own = process.geteuid?.();
  if (own === undefined || Number(uid) === own) return;
  throw new JsonlError(
    "not-ours",
    `${path} belongs to user ${uid}, not to ${own}; write as its owner or to a copy.`,
  );
}

function attempt<T>(path: string, mode: OpenMode, call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw openError(path, mode, error);
  }
}

function openError(path: string, mode: OpenMode, error: unknown): JsonlError {
  switch (systemCode(error)) {
    case "ENOENT":
      return new JsonlError("not-found", `There is no file ${path}, or no folder to create it in.`, error);
    case "EEXIST":
      return new JsonlError("exists", `${path} appeared while it was being created; open it again.`, error);
    case "ELOOP":
    case "EMLINK":
      return new JsonlError("not-a-file", `${path} is a symbolic link, which is not followed.`, error);
    case "EACCES":
    case "EPERM":
    case "EROFS":
      if (mode === "write") {
        return new JsonlError(
          "read-only",
          `${path} may not be written; open it for reading, or copy it.`,
          error,
        );
      }
  }
  return new JsonlError("unreadable", `${path} cannot be opened.`, error);
}
