import type { FileCalls } from "./file-calls.ts";
import { systemCode } from "./system-error.ts";
import { writingCall } from "./writing-call.ts";

/** What systems answer that have no hard links: FAT, some network and user-space file systems. */
const UNSUPPORTED = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"]);

/**
 * Gives a file a second name that nothing else has; false where the file system cannot.
 *
 * @throws JsonlError `exists`
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
