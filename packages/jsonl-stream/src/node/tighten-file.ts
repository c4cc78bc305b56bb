import { JsonlError } from "../jsonl-error.ts";
import type { Descriptor } from "./descriptor.ts";
import type { FileFacts } from "./file-calls.ts";
import { systemCode, uninterrupted } from "./system-error.ts";

/** Rights of everybody but the owner. */
const OTHERS = 0o077n;

/** File systems that know no rights (FAT, some network mounts) have none to take away. */
const NO_RIGHTS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/** Keeps an open file to its owner. Windows has no such rights, and says that everybody has them. */
export function tightenFile({ path, fd, calls }: Descriptor, { mode }: FileFacts): void {
  if (process.platform === "win32" || (mode & OTHERS) === 0n) return;
  try {
    uninterrupted(() => calls.fchmodSync(fd, Number(mode & ~OTHERS & 0o7777n)));
  } catch (error) {
    const code = systemCode(error);
    if (code !== undefined && NO_RIGHTS.has(code)) return;
    throw new JsonlError(
      "read-only",
      `${path} cannot be kept from others (${code ?? "see cause"}); open it for reading, or copy it.`,
      error,
    );
  }
}
