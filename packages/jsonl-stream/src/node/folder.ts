import { constants } from "node:fs";
import { dirname } from "node:path";
import { closeFile } from "./close-file.ts";
import type { FileCalls } from "./file-calls.ts";
import { systemCode, uninterrupted } from "./system-error.ts";

/** What systems answer that cannot sync a folder (Windows; some network and user-space file systems). */
const UNSUPPORTED = new Set(["EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EISDIR", "EBADF"]);

/** Makes durable that a file stands under this path: a power cut otherwise takes the young name away with its bytes. */
export function syncFolderOf(path: string, calls: FileCalls): void {
  // Windows opens no folder and journals names by itself.
  if (process.platform === "win32") return;
  const fd = uninterrupted(() => calls.openSync(dirname(path), constants.O_RDONLY));
  try {
    uninterrupted(() => calls.fsyncSync(fd));
  } catch (error) {
    if (!UNSUPPORTED.has(systemCode(error) ?? "")) throw error;
  } finally {
    closeFile(dirname(path), fd, calls);
  }
}
