import type { OffloadStorage } from "./offload-storage.ts";
import type { PolicyLog } from "./policy-log.ts";

/**
 * Removes every file of a storage that nothing refers to; returns the removed ones. One that cannot be removed, or all
 * where nobody can say which there are, is a warning and stays: what was compacted is compacted all the same.
 */
export async function cleanupOffloadedFiles(
  storage: OffloadStorage,
  referenced: ReadonlySet<string>,
  log: PolicyLog = console,
): Promise<string[]> {
  const deleted: string[] = [];
  for (const path of await listed(storage, log)) {
    if (referenced.has(path)) continue;
    try {
      await storage.remove(path);
      deleted.push(path);
    } catch (error) {
      log.warn(`The offloaded file ${path} could not be removed; it can be deleted by hand.`, { error });
    }
  }
  return deleted;
}

async function listed(storage: OffloadStorage, log: PolicyLog): Promise<string[]> {
  try {
    return await storage.list();
  } catch (error) {
    log.warn("Offloaded files could not be looked through, and stay; they can be deleted by hand.", {
      error,
    });
    return [];
  }
}
