import { type Dirent, existsSync, mkdirSync, readdirSync, type Stats, statSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import { SessionTreeError } from "../session-tree-error.ts";

/** A file, and how long and old it was when it was looked at. */
export interface SessionFile {
  /** Absolute. */
  path: string;
  facts: Stats;
}

/**
 * The files in these folders, and below them, that are sessions by their name: newest first, none of them opened. Links
 * to folders are followed; no folder is read twice, however many ways lead there.
 *
 * @throws SessionTreeError `unreadable` for a folder that cannot be read
 */
export function sessionFiles(folders: readonly string[]): SessionFile[] {
  const files: SessionFile[] = [];
  const read = new Set<string>();
  const waiting = folders.map((folder) => resolve(folder));
  // Followed last, so that what lies below by itself is found where it is.
  const links: string[] = [];
  const next = () => waiting.pop() ?? links.pop();
  for (let folder = next(); folder !== undefined; folder = next()) {
    if (!existsSync(folder) || !isNew(folder, read)) continue;
    for (const file of filesIn(folder)) {
      const path = join(folder, file.name);
      if (file.isDirectory()) waiting.push(path);
      else if (file.isSymbolicLink() && isFolder(path)) links.push(path);
      else if (file.isFile() && file.name.endsWith(".jsonl")) {
        // It may have been removed since the folder was read.
        const facts = statSync(path, { throwIfNoEntry: false });
        if (facts) files.push({ path, facts });
      }
    }
  }
  return files.sort((a, b) => b.facts.mtimeMs - a.facts.mtimeMs);
}

/** Whether a path lies below one of these folders. */
export const isBelow = (path: string, folders: readonly string[]): boolean =>
  folders.some((folder) => path.startsWith(join(folder, sep)));

/** Makes a folder and what is above it, for its owner alone whatever the umask is. Throws `write-failed`. */
export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const message = `The folder ${folder} cannot be made (${codeOf(cause)}); make it, or keep sessions elsewhere.`;
    throw new SessionTreeError("write-failed", message, { cause });
  }
}

/** One folder: reading a whole tree by one call asks the system of every file in it whether it is a folder. */
function filesIn(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (cause) {
    // It may have been removed since it was found.
    if (codeOf(cause) === "ENOENT") return [];
    const message = `${folder} cannot be read as a folder (${codeOf(cause)}); check its rights, or name another one.`;
    throw new SessionTreeError("unreadable", message, { cause });
  }
}

/** True the first time that a folder is met, under whatever name. */
function isNew(folder: string, met: Set<string>): boolean {
  const facts = statSync(folder, { bigint: true, throwIfNoEntry: false });
  const identity = `${facts?.dev}:${facts?.ino}`;
  if (met.has(identity)) return false;
  met.add(identity);
  return true;
}

/** Whether a link leads to a folder: sessions may lie elsewhere. One that leads nowhere, or to itself, does not. */
const isFolder = (path: string): boolean => existsSync(path) && statSync(path).isDirectory();

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "see cause";
