import { JsonlError } from "../jsonl-error.ts";
import { fileCall } from "./draft.ts";
import type { FileCalls } from "./file-calls.ts";
import { systemCode } from "./system-error.ts";

/** What systems answer that have no hard links: FAT, some network and user-space file systems. */
const UNSUPPORTED = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"]);

/**
 * Gives a file a second name that nothing else has; false where the file system cannot.
 *
 * @throws JsonlError `exists`
 */
export function linkNew(existing: string, path: string, calls: FileCalls): boolean {
  return fileCall(path, () => {
    try {
      calls.linkSync(existing, path);
      return true;
    } catch (error) {
      const code = systemCode(error) ?? "";
      if (code === "EEXIST") throw alreadyThere(path, error);
      if (UNSUPPORTED.has(code)) return false;
      throw error;
    }
  });
}

/** The error for a name that is taken. */
export function alreadyThere(path: string, cause?: unknown): JsonlError {
  return new JsonlError("exists", `${path} is already there and was left alone; choose another name.`, cause);
}
