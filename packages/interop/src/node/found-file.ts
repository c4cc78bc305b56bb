import { type Dirent, readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { InteropError } from "../import-error.ts";

/** A file that was found. */
export interface FoundFile {
  /** Absolute. */
  path: string;
  /** When it was made, epoch milliseconds. */
  born: number;
}

/**
 * All files below a folder whose names are wanted, or the file itself; none for what is not there.
 *
 * @throws InteropError `unreadable`
 */
export function findFiles(place: string, isWanted: (path: string) => boolean): FoundFile[] {
  const facts = factsOf(place);
  if (!facts?.isDirectory()) return facts?.isFile() ? [{ path: place, born: bornAt(facts) }] : [];
  return filesBelow(place).flatMap((file): FoundFile[] => {
    const path = join(file.parentPath, file.name);
    return isWanted(path) && !file.isDirectory() ? findFiles(path, isWanted) : [];
  });
}

/**
 * What stands at a path, if anything does. A link is followed; one that leads nowhere, or in a circle, is nothing.
 *
 * @throws InteropError `unreadable`
 */
export function factsOf(place: string): Stats | undefined {
  try {
    return statSync(place, { throwIfNoEntry: false });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ELOOP") return undefined;
    throw new InteropError("unreadable", `${place} cannot be looked at; check the rights of its folder.`, {
      cause,
    });
  }
}

function filesBelow(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true });
  } catch (cause) {
    throw new InteropError("unreadable", `${folder} cannot be looked through; check its rights.`, { cause });
  }
}

/** File systems that do not know when a file was made say 0. */
function bornAt({ birthtimeMs, mtimeMs }: { birthtimeMs: number; mtimeMs: number }): number {
  return birthtimeMs > 0 ? Math.min(birthtimeMs, mtimeMs) : mtimeMs;
}
