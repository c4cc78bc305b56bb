import { type FSWatcher, watch } from "node:fs";
import { isAbsolute } from "node:path";
import type { SessionLog } from "@espalier/session-tree";

/** Milliseconds after which a log is looked at where nobody says that it changed: a store, or some systems. */
const LOOK = 1_000;

/** Why a system does not watch: no more files can be, or none here, or it is gone. Looking finds the same, later. */
const UNWATCHED: ReadonlySet<string | undefined> = new Set([
  "ENOSPC",
  "EMFILE",
  "ENOSYS",
  "ENOENT",
  "EACCES",
]);

/** Calls `look` whenever a log may have grown; returns the function that ends it. */
export function followLog({ ref }: Pick<SessionLog, "ref">, look: () => void): () => void {
  const timer = setInterval(look, LOOK);
  const watcher = isAbsolute(ref) ? watchFile(ref, look) : undefined;
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}

function watchFile(file: string, look: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(file, look);
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch (error) {
    if (!UNWATCHED.has((error as NodeJS.ErrnoException).code)) throw error;
    return undefined;
  }
}
