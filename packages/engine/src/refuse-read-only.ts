import { assertWritable, SessionTreeError } from "@espalier/session-tree";
import type { SessionState } from "./session-state.ts";

/**
 * Refuses what could not be written in the end, before anybody is asked or billed for it and before a file is written.
 *
 * @throws SessionTreeError `read-only`; `no-header`, `version` for a log that can be read and must not be written
 */
export function refuseReadOnly({ isReadOnly, core }: SessionState): void {
  if (isReadOnly)
    throw new SessionTreeError("read-only", `${core.log.ref} was opened for reading; open it for writing.`);
  assertWritable(core.log);
}
