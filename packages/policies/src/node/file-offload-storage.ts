import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { OffloadStorage } from "../offload-storage.ts";

/** A file that a process left half written is cleared away once it is this old, in milliseconds. */
const LEFTOVER_AGE_MS = 60_000;

const RESULT = /^[0-9a-f]{64}\.txt$/;
const LEFTOVER = /^[0-9a-f]{64}\.txt\.\d+\.tmp$/;

/**
 * Results in files of mode 0600 in a folder of mode 0700, named by the SHA-256 of their text. A file appears under its
 * name only when it is whole and on disk.
 */
export function fileOffloadStorage(folder: string): OffloadStorage {
  const pathFor = (text: string) =>
    join(folder, `${createHash("sha256").update(text.toWellFormed()).digest("hex")}.txt`);
  const owns = (path: string) => RESULT.test(path.slice(-68)) && path === join(folder, path.slice(-68));
  return {
    pathFor,
    owns,
    has: async (path) => (await sizeOf(path)) !== undefined,
    async write(text) {
      const path = pathFor(text);
      const bytes = Buffer.from(text.toWellFormed());
      if ((await sizeOf(path)) === bytes.length) return path;
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const draft = `${path}.${process.pid}.tmp`;
      await writeSynced(draft, bytes);
      await rename(draft, path);
      await syncFolder(folder);
      return path;
    },
    async read(path) {
      if (!owns(path)) return undefined;
      try {
        return await readFile(path, "utf8");
      } catch (error) {
        // Gone or not readable: whoever asks says so in its place.
        if (isSystemError(error)) return undefined;
        throw error;
      }
    },
    async remove(path) {
      await unlink(path);
    },
    async list() {
      const names = await namesIn(folder);
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

async function writeSynced(path: string, bytes: Buffer): Promise<void> {
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** So that the name survives the loss of power too; not every system can sync a folder. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isSystemError(error)) return undefined;
    throw error;
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).sort();
  } catch (error) {
    if (isSystemError(error) && error.code === "ENOENT") return [];
    throw error;
  }
}

async function isOld(path: string): Promise<boolean> {
  try {
    return Date.now() - (await stat(path)).mtimeMs > LEFTOVER_AGE_MS;
  } catch (error) {
    if (isSystemError(error)) return false;
    throw error;
  }
}

const isSystemError = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && typeof (error as NodeJS.ErrnoException).code === "string";
