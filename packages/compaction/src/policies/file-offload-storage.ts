import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, readdir, readFile, unlink } from "node:fs/promises";
import { join } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { createWholeAsync } from "@espalier/jsonl-stream/node";
import type { OffloadStorage } from "./offload-storage.ts";

/** Age at which an unfinished file of another process is removed, in milliseconds. */
const LEFTOVER_AGE_MS = 60_000;
const RESULT = /^[0-9a-f]{64}\.txt$/;
const LEFTOVER = /^[0-9a-f]{64}\.txt\.[0-9A-Za-z]+\.tmp$/;

/**
 * Storage of results in files of mode 0600, in a folder of mode 0700, named by the SHA-256 of their text. A file gets
 * its name only when it is complete and on disk. A session may come from another user, together with such a folder:
 * links are not followed, and a file is read only when its text has the digest in its name. `write` throws
 * EspalierError `no-storage` when the folder is a link.
 */
export function fileOffloadStorage(folder: string): OffloadStorage {
  const pathFor = (text: string) =>
    join(folder, `${createHash("sha256").update(text.toWellFormed()).digest("hex")}.txt`);
  const owns = (path: string) => RESULT.test(path.slice(-68)) && path === join(folder, path.slice(-68));
  const read = async (path: string) => {
    if (!owns(path) || !(await isFolder(folder))) return undefined;
    const text = await textIn(path);
    return text !== undefined && pathFor(text) === path ? text : undefined;
  };
  return {
    pathFor,
    owns,
    read,
    has: async (path) => (await isFolder(folder)) && (await factsOf(path))?.isFile() === true,
    async write(text) {
      const path = pathFor(text);
      if ((await read(path)) !== undefined) return path;
      await mkdir(folder, { recursive: true, mode: 0o700 });
      if (!(await isFolder(folder)))
        throw new EspalierError(
          "no-storage",
          `${folder} is a link, which is not followed; put a folder there.`,
        );
      // Two writers may store the same text at once: each writes its own draft, and the draft that is renamed last is
      // kept.
      await createWholeAsync(path, [new TextEncoder().encode(text)], { replaces: true });
      return path;
    },
    async remove(path) {
      await unlink(path);
    },
    async list() {
      const names = (await isFolder(folder)) ? await namesIn(folder) : [];
      const kept = await Promise.all(
        names.map(async (name) => {
          const path = join(folder, name);
          return RESULT.test(name) || (LEFTOVER.test(name) && (await isOld(path))) ? [path] : [];
        }),
      );
      return kept.flat();
    },
  };
}

/**
 * Returns the text of a regular file; undefined for a missing or unreadable file or a link, which the caller reports.
 */
async function textIn(path: string): Promise<string | undefined> {
  if (!(await factsOf(path))?.isFile()) return undefined;
  const flag = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);
  return readFile(path, { encoding: "utf8", flag }).catch(unlessSystemError);
}

const isFolder = async (path: string): Promise<boolean> => (await factsOf(path))?.isDirectory() === true;

/** Returns the stats of the path itself; links are not followed. */
const factsOf = (path: string) => lstat(path).catch(unlessSystemError);

/** Returns the names in a folder; none when it was removed in the meantime. */
async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).sort();
  } catch (error) {
    if (isSystemError(error) && error.code === "ENOENT") return [];
    throw error;
  }
}

async function isOld(path: string): Promise<boolean> {
  const facts = await factsOf(path);
  return facts !== undefined && Date.now() - facts.mtimeMs > LEFTOVER_AGE_MS;
}

function unlessSystemError(error: unknown): undefined {
  if (!isSystemError(error)) throw error;
}

const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && typeof (error as NodeJS.ErrnoException).code === "string";
