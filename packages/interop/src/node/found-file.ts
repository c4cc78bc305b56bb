import { type Dirent, readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { InteropError } from "../import-error.ts";

/** A file that was found. It may be a FIFO or a device: reading it says so. */
export interface FoundFile {
  /** Absolute. */
  path: string;
  /** When it was made, epoch milliseconds. */
  born: number;
}

/**
 * All files below a folder whose names are wanted, or the file itself; none for what is not there. A link to a file is
 * followed, one to a folder is not.
 *
 * @param onSkipped - receives each folder and file that cannot be looked at, the place itself among them
 */
export function findFiles(
  place: string,
  isWanted: (path: string) => boolean,
  onSkipped: (path: string, error: InteropError) => void,
): FoundFile[] {
  const found: FoundFile[] = [];
  const attempt = (path: string, look: () => void): void => {
    try {
      look();
    } catch (error) {
      if (!(error instanceof InteropError)) throw error;
      onSkipped(path, error);
    }
  };
  const folders: string[] = [];
  const take = (path: string): void => {
    const facts = factsOf(path);
    if (facts && !facts.isDirectory()) found.push({ path, born: bornAt(facts) });
    else if (facts && path === place) folders.push(place);
  };
  attempt(place, () => take(place));
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const at = folder;
    attempt(at, () => {
      for (const file of filesIn(at)) {
        const path = join(at, file.name);
        if (file.isDirectory()) folders.push(path);
        else if (isWanted(path)) attempt(path, () => take(path));
      }
    });
  }
  return found;
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
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ELOOP" || code === "ENOTDIR") return undefined;
    const message = `${place} cannot be looked at (${code ?? "see cause"}); check the rights of its folder.`;
    throw new InteropError("unreadable", message, { cause });
  }
}

function filesIn(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    // It may have been removed since it was found.
    if (code === "ENOENT") return [];
    const message = `${folder} cannot be looked through (${code ?? "see cause"}); check its rights.`;
    throw new InteropError("unreadable", message, { cause });
  }
}

/** File systems that do not know when a file was made say 0. */
function bornAt({ birthtimeMs, mtimeMs }: { birthtimeMs: number; mtimeMs: number }): number {
  return birthtimeMs > 0 ? Math.min(birthtimeMs, mtimeMs) : mtimeMs;
}
