import { FORMAT_VERSION } from "./session-header.ts";
import type { SessionLog } from "./session-store.ts";
import { SessionTreeError } from "./session-tree-error.ts";

/** Refuses a log that can be read and must not be written: `no-header`, or a `version` newer than this program writes. */
export function assertWritable({ header, ref }: SessionLog): void {
  if (!header)
    throw new SessionTreeError(
      "no-header",
      `${ref} has no session header, so it is only read; \`espalier doctor --repair\` writes a sound copy.`,
    );
  if (header.version > FORMAT_VERSION) {
    throw new SessionTreeError(
      "version",
      `${ref} has format version ${header.version}, newer than this program writes (${FORMAT_VERSION}); it is only read.`,
    );
  }
}
