import { createHash, randomBytes } from "node:crypto";
import {
  type Dirent,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { discard, type FileCalls, nodeFileCalls, syncFolderOf } from "@espalier/jsonl-stream/node";
import { isSessionId, type SessionHeader } from "../entry/entry.ts";
import type { StoreListOptions } from "./store.ts";

/**
 * The folder name under which sessions of a working folder are kept: what a person recognises, `-`, and 10 hex digits
 * of the SHA-256 of the folder's real path, so that two folders of one name stay apart.
 */
export function projectKey(folder: string): string {
  const real = realPath(folder);
  const readable = (basename(real) || "root").replace(/[^A-Za-z0-9_-]/g, "").slice(0, 40) || "folder";
  return `${readable}-${createHash("sha256").update(real).digest("hex").slice(0, 10)}`;
}

/** A folder that is gone keeps the name it had. */
function realPath(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}

/** The file name of a session: its time with `:` and `.` replaced, `_`, its id. Throws `invalid-entry` for an unsafe id. */
export function sessionFileName({ timestamp, id }: Pick<SessionHeader, "timestamp" | "id">): string {
  if (!isSessionId(id)) {
    throw new EspalierError(
      "invalid-entry",
      "The session's id cannot be part of a file name; use letters, digits, `.`, `_` and `-`.",
    );
  }
  return `${timestamp.replace(/[:.]/g, "-").replace(/[^A-Za-z0-9_-]/g, "")}_${id}.jsonl`;
}

/** Path of a new session below a home folder. */
export function sessionPath(home: string, header: Pick<SessionHeader, "timestamp" | "id" | "cwd">): string {
  return join(home, "sessions", projectKey(header.cwd), sessionFileName(header));
}

/** The id at the end of a session's file name; undefined for a file that is not named like one. */
export function idInFileName(path: string): string | undefined {
  return /_([^_/\\]+)\.jsonl$/.exec(path)?.[1];
}

/** The folder beside a session that holds what was moved out of its context. */
export function offloadFolder(path: string): string {
  return `${path.replace(/\.jsonl$/, "")}.offloaded`;
}

/** Paths of a session: its file and those beside it, but for the lease, which comes and goes. */
export function sessionBelongings(path: string): string[] {
  return [path, offloadFolder(path), `${path}.v1`, `${path}.v2`];
}

/** A file, and how long and old it was when it was looked at. */
export interface SessionFile {
  /** Absolute. */
  path: string;
  facts: Stats;
}

/** Options of a search of folders. */
export interface SearchedFolders extends StoreListOptions {
  /** The home of a store. It may be a link itself; `sessions` in it may be none. */
  home?: string;
}

/**
 * The files in these folders, and below them, that are sessions by their name: newest first, none of them opened. Each of
 * these folders may be a link; below them no link is followed. No folder is read twice, however many ways lead there. A
 * folder below them that cannot be read is passed over; so is one of them where others are left and `onSkipped` is given.
 *
 * @throws EspalierError `unreadable`, `not-a-file` for one of these folders
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
 * Refuses a path that leads through a link below one of these folders. The folders themselves may be links, and so may
 * whatever is above them. A path that is below none of them is what the caller named, and is left to the caller.
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
 * Makes a folder and what is above it, for its owner alone whatever the umask is, and makes their names durable: a
 * session in a folder that a power cut takes away is lost with it.
 *
 * Folder by folder: the call that makes all of them at once never returns where the system refuses new names, as below
 * /proc.
 *
 * @throws EspalierError `write-failed`
 */
export function makeFolder(folder: string, calls: FileCalls = nodeFileCalls): void {
  try {
    makeFoldersTo(resolve(folder), calls);
  } catch (cause) {
    const message = `The folder ${folder} cannot be made (${codeOf(cause)}); make it, or keep sessions elsewhere.`;
    throw new EspalierError("write-failed", message, { cause });
  }
}

function makeFoldersTo(folder: string, calls: FileCalls): void {
  // A link to a folder counts as one.
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
  const above = dirname(folder);
  if (above !== folder) makeFoldersTo(above, calls);
  try {
    mkdirSync(folder, { mode: 0o700 });
    syncFolderOf(folder, calls);
  } catch (error) {
    // Another process may have made it since.
    if (codeOf(error) !== "EEXIST" || !statSync(folder).isDirectory()) throw error;
  }
}

/** Replaces a file of derived data as a whole. Where that fails, the data is derived again, which is all that is lost. */
export function writeDerived(path: string, text: string): void {
  const draft = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    writeFileSync(draft, text, { mode: 0o600, flag: "wx" });
    renameSync(draft, path);
  } catch {
    // No folder yet, no right to write, or no room.
    discard([draft], nodeFileCalls);
  }
}

/** One folder: reading a whole tree by one call asks the system of every file in it whether it is a folder. */
function filesIn(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (cause) {
    // It may have been removed since it was found.
    if (codeOf(cause) === "ENOENT") return [];
    const problem =
      codeOf(cause) === "ENOTDIR"
        ? "is not a folder; name the folder it is in"
        : `cannot be read as a folder (${codeOf(cause)}); check its permissions, or name another one`;
    throw new EspalierError("unreadable", `${folder} ${problem}.`, { cause });
  }
}

function factsOf(path: string): Stats | undefined {
  return readFacts(path, () => statSync(path, { throwIfNoEntry: false }));
}

/** True the first time that a folder is met, under any name; false for one that does not exist. */
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
    // A link to itself, and a path below a file, lead nowhere.
    if (codeOf(cause) === "ELOOP" || codeOf(cause) === "ENOTDIR") return undefined;
    const message = `${path} cannot be looked at (${codeOf(cause)}); check the rights of its folder.`;
    throw new EspalierError("unreadable", message, { cause });
  }
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "see cause";
