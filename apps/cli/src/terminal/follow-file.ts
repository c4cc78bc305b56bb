import { type FSWatcher, watch } from "node:fs";

/** Milliseconds after which a file is looked at where the system does not say that it changed. */
const LOOK = 1_000;

/** Why a system does not watch: no more files can be, or none here, or it is gone. Looking finds the same, later. */
const UNWATCHED: ReadonlySet<string | undefined> = new Set([
  "ENOSPC",
  "EMFILE",
  "ENOSYS",
  "ENOENT",
  "EACCES",
]);

/** Calls `look` whenever a file may have changed; returns the function that ends it. */
export function followFile(file: string, look: () => void): () => void {
  const timer = setInterval(look, LOOK);
  const watcher = watchFile(file, look);
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
