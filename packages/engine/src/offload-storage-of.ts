import type { OffloadStorage } from "@espalier/policies";
import { fileOffloadStorage } from "@espalier/policies/node";
import type { SessionLog } from "@espalier/session-tree";
import { FileLog, offloadFolder } from "@espalier/session-tree/node";

/** The folder beside a session's file, where results lie that were moved out of its context; undefined for other logs. */
export function offloadStorageOf(log: SessionLog): OffloadStorage | undefined {
  return log instanceof FileLog ? fileOffloadStorage(offloadFolder(log.ref)) : undefined;
}
