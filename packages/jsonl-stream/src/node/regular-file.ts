import { constants } from "node:fs";
import { JsonlError } from "../jsonl-error.ts";
import { closeFile } from "./close-file.ts";
import type { FileCalls, FileFacts } from "./file-calls.ts";
import { checkKind, checkOwner } from "./file-kind.ts";
import { isNoFolder, systemCode, uninterrupted } from "./system-error.ts";

/** How a file is opened. `write` means to append, and to read. */
export type OpenMode = "read" | "write";

export interface OpenedFile {
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
    throw new JsonlError("not-found", `There is no file ${path}; check the path.`);
  if (before !== undefined) check(path, mode, before);
  const created = before === undefined;
  let fd: number;
  try {
    fd = uninterrupted(() => calls.openSync(path, created ? FLAGS[mode] | NEW : FLAGS[mode], 0o600));
  } catch (error) {
    // Somebody else made it since we looked.
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

function openError(path: string, mode: OpenMode, error: unknown): JsonlError {
  const code = systemCode(error);
  if (isNoFolder(error))
    return new JsonlError(
      "not-found",
      `There is no file ${path}; make its folder first, if it is to be made.`,
      error,
    );
  if (code === "ELOOP" || code === "EMLINK") {
    return new JsonlError(
      "not-a-file",
      `${path} is a symbolic link, which is not followed; name the file it leads to.`,
      error,
    );
  }
  if (mode === "write" && (code === "EACCES" || code === "EPERM" || code === "EROFS")) {
    return new JsonlError("read-only", `${path} may not be written; open it for reading, or copy it.`, error);
  }
  return new JsonlError(
    "unreadable",
    `${path} cannot be opened (${code ?? "see cause"}); check its rights.`,
    error,
  );
}
