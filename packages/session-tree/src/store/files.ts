import { createHash } from "node:crypto";
import {
  type Dirent,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  type Stats,
  statSync,
} from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  createWhole,
  type FileCalls,
  nodeFileCalls,
  syncFolderOf,
  systemCode,
} from "@espalier/jsonl-stream/node";
import { isSessionId, type SessionHeader } from "../entry/entry.ts";
import type { StoreListOptions } from "./store.ts";

/**
 * Returns the folder name for sessions of a working folder: the folder's name (its letters, digits, `_` and `-`, at
 * most 40), `-`, and the first 10 hex digits of the SHA-256 of its real path, so that two folders with the same name
 * are kept apart.
 */
export function projectKey(folder: string): string {
  const real = realPath(folder);
  const readable = (basename(real) || "root").replace(/[^A-Za-z0-9_-]/g, "").slice(0, 40) || "folder";
  return `${readable}-${createHash("sha256").update(real).digest("hex").slice(0, 10)}`;
}

/** Returns the real path; the given path for a folder that no longer exists. */
function realPath(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}

/**
 * Returns the file name of a session: its timestamp with `:` and `.` replaced, `_`, its id. Throws `invalid-entry` for
 * an unsafe id.
 */
export function sessionFileName({ timestamp, id }: Pick<SessionHeader, "timestamp" | "id">): string {
  if (!isSessionId(id)) {
    throw new EspalierError(
      "invalid-entry",
      "The session's id cannot be part of a file name; use at most 128 letters, digits, `.`, `_` and `-`, with a letter or digit at both ends.",
    );
  }
  return `${timestamp.replace(/[:.]/g, "-").replace(/[^A-Za-z0-9_-]/g, "")}_${id}.jsonl`;
}

/** Returns the path of a new session below a home folder. */
export function sessionPath(home: string, header: Pick<SessionHeader, "timestamp" | "id" | "cwd">): string {
  return join(home, "sessions", projectKey(header.cwd), sessionFileName(header));
}

/**
 * Returns the path of the folder next to a session's file, `<session>.offloaded`, for content moved out of its context.
 */
export function offloadFolder(path: string): string {
  return `${path.replace(/\.jsonl$/, "")}.offloaded`;
}

/**
 * Returns the paths of a session's file, of its folder of offloaded content, and of its originals in old formats,
 * whether they exist or not. Leases are left out, because they are temporary.
 */
export function sessionBelongings(path: string): string[] {
  return [path, offloadFolder(path), `${path}.v1`, `${path}.v2`];
}

/** A file, with its size and times at the time of the search. */
export interface SessionFile {
  /** Absolute path. */
  path: string;
  /** Facts of the file system. */
  facts: Stats;
}

/** Options of a search of folders. */
export interface SearchedFolders extends StoreListOptions {
  /** Home of a store. It can be a link itself; its `sessions` folder cannot. */
  home?: string;
}

/**
 * Returns the `*.jsonl` files in these folders and below them, the last written first. Does not open them. Each of the
 * given folders can be a link; links below them are not followed. A folder is read once, even if several paths lead to
 * it. A subfolder that cannot be read is skipped. A given folder that cannot be read is skipped only when there are
 * several and `onSkipped` is given.
 *
 * @throws EspalierError `unreadable`, `not-a-file` for one of the given folders
 */
export function sessionFiles(
  folders: readonly string[],
  { home, onSkipped }: SearchedFolders = {},
): SessionFile[] {
  const files: SessionFile[] = [];
  const read = new Set<string>();
  const roots = new Set(folders.map((folder) => resolve(folder)));
  const waiting = [...roots];
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    try {
      if (home !== undefined && folder === join(home, "sessions"))
        refuseLinksBelow(join(folder, "any"), [home]);
      for (const file of isNew(folder, read) ? filesIn(folder) : []) {
        const path = join(folder, file.name);
        if (file.isDirectory()) waiting.push(path);
        else if (file.isFile() && file.name.endsWith(".jsonl")) {
          const facts = factsOf(path);
          if (facts) files.push({ path, facts });
        }
      }
    } catch (error) {
      const mayBeSkipped = !roots.has(folder) || (roots.size > 1 && onSkipped !== undefined);
      if (!(error instanceof EspalierError) || !mayBeSkipped) throw error;
      onSkipped?.(folder, error);
    }
  }
  return files.sort((a, b) => b.facts.mtimeMs - a.facts.mtimeMs);
}

/**
 * Refuses a path that leads through a link below one of these folders. The folders themselves can be links, and so can
 * the folders above them. A path outside all of them is not checked, because the caller named it.
 *
 * @throws EspalierError `not-a-file`, naming the link
 */
export function refuseLinksBelow(path: string, folders: readonly string[]): void {
  const above = folders.filter((folder) => isBelow(path, [folder]));
  if (above.length === 0) return;
  const root = above.reduce((deepest, folder) => (folder.length > deepest.length ? folder : deepest));
  let place = root;
  for (const part of relative(root, dirname(path)).split(sep)) {
    place = join(place, part);
    const facts = readFacts(place, () => lstatSync(place, { throwIfNoEntry: false }));
    if (place === root || !facts?.isSymbolicLink()) continue;
    throw new EspalierError(
      "not-a-file",
      `${place} is a symbolic link, which is not followed; name the folder it leads to.`,
    );
  }
}

/** Returns whether a path is below one of these folders. */
export const isBelow = (path: string, folders: readonly string[]): boolean =>
  folders.some((folder) => path.startsWith(join(folder, sep)));

/**
 * Creates a folder and its parents with rights for the owner only, whatever the umask is, and makes their names
 * durable: a session in a folder that is lost at a power failure is lost too.
 *
 * Creates one folder after another. Node's recursive call never returns where the system refuses new names, such as
 * below /proc.
 *
 * @throws EspalierError `write-failed`
 */
export function makeFolder(folder: string, calls: FileCalls = nodeFileCalls): void {
  try {
    makeFoldersTo(resolve(folder), calls);
  } catch (cause) {
    const message = `The folder ${folder} cannot be created (${codeOf(cause)}); create it, or keep sessions in another folder.`;
    throw new EspalierError("write-failed", message, { cause });
  }
}

function makeFoldersTo(folder: string, calls: FileCalls): void {
  // A link to a folder counts as a folder.
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
  const above = dirname(folder);
  if (above !== folder) makeFoldersTo(above, calls);
  try {
    mkdirSync(folder, { mode: 0o700 });
    syncFolderOf(folder, calls);
  } catch (error) {
    // Another process may have created it in the meantime.
    if (codeOf(error) !== "EEXIST" || !statSync(folder).isDirectory()) throw error;
  }
}

/** Replaces a file of derived data as a whole. A failure is ignored, because the data can be derived again. */
export function writeDerived(path: string, text: string): void {
  try {
    createWhole(path, [Buffer.from(text)], { replaces: true, isDurable: false });
  } catch {
    // The folder is missing, read-only or full.
  }
}

/** Returns the JSON value of a file of derived data; undefined when it is missing or damaged. */
export function readDerived(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    // The data is derived again.
    return undefined;
  }
}

/** Returns the files of one folder. Node's recursive listing asks the system about every file in the tree. */
function filesIn(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (cause) {
    // The folder may have been removed after it was found.
    if (codeOf(cause) === "ENOENT") return [];
    const problem =
      codeOf(cause) === "ENOTDIR"
        ? "is not a folder; name the folder it is in"
        : `cannot be read as a folder (${codeOf(cause)}); check its permissions, or name another one`;
    throw new EspalierError("unreadable", `${folder} ${problem}.`, { cause });
  }
}

/**
 * Returns the stats of the file or folder at a path; undefined when there is none. A link is followed; one that leads
 * nowhere, or in a circle, counts as missing. Throws `unreadable`.
 */
export function factsOf(path: string): Stats | undefined {
  return readFacts(path, () => statSync(path, { throwIfNoEntry: false }));
}

/** Returns true the first time a folder is met, under any name; false for a folder that does not exist. */
function isNew(folder: string, met: Set<string>): boolean {
  const facts = readFacts(folder, () => statSync(folder, { bigint: true, throwIfNoEntry: false }));
  const identity = `${facts?.dev}:${facts?.ino}`;
  if (!facts || met.has(identity)) return false;
  met.add(identity);
  return true;
}

function readFacts<Facts>(path: string, look: () => Facts): Facts | undefined {
  try {
    return look();
  } catch (cause) {
    // A link to itself, or a path below a file, leads nowhere.
    if (codeOf(cause) === "ELOOP" || codeOf(cause) === "ENOTDIR") return undefined;
    const message = `${path} cannot be accessed (${codeOf(cause)}); check the rights of its folder.`;
    throw new EspalierError("unreadable", message, { cause });
  }
}

const codeOf = (error: unknown): string => systemCode(error) ?? "see cause";
