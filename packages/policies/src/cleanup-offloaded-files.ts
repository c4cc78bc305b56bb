import type { OffloadStorage } from "./offload-storage.ts";
import type { PolicyLog } from "./policy-log.ts";

/**
 * Removes every file of a storage that nothing refers to. One that cannot be removed is a warning and stays; returns
 * the removed ones.
 */
export async function cleanupOffloadedFiles(
  storage: OffloadStorage,
  referenced: ReadonlySet<string>,
  log: PolicyLog = console,
): Promise<string[]> {
  const deleted: string[] = [];
  for (const path of await storage.list()) {
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
