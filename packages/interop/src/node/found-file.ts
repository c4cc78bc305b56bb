import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** A file that was found. */
export interface FoundFile {
  /** Absolute. */
  path: string;
  /** When it was made, epoch milliseconds. */
  born: number;
}

/** All files below a folder whose names are wanted, or the file itself; none for what is not there. */
export function findFiles(place: string, isWanted: (path: string) => boolean): FoundFile[] {
  const facts = statSync(place, { throwIfNoEntry: false });
  if (!facts?.isDirectory()) return facts?.isFile() ? [{ path: place, born: bornAt(facts) }] : [];
  return readdirSync(place, { recursive: true, withFileTypes: true }).flatMap((file): FoundFile[] => {
    const path = join(file.parentPath, file.name);
    return isWanted(path) && !file.isDirectory() ? findFiles(path, isWanted) : [];
  });
}

/** File systems that do not know when a file was made say 0. */
function bornAt({ birthtimeMs, mtimeMs }: { birthtimeMs: number; mtimeMs: number }): number {
  return birthtimeMs > 0 ? Math.min(birthtimeMs, mtimeMs) : mtimeMs;
}
