import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";

/** A call that fails as the system would. */
export const refuse = (code: string) => (): never => {
  throw Object.assign(new Error(code), { code });
};

/** Syncs, on this thread or another, that fail when `isFailing` returns true for their number, from 1. */
function failingSyncs(isFailing: (count: number) => boolean): Pick<FileCalls, "fsync" | "fsyncSync"> {
  let count = 0;
  const refused = () => isFailing(++count);
  return {
    fsyncSync: (fd) => (refused() ? refuse("EIO")() : nodeFileCalls.fsyncSync(fd)),
    fsync: async (fd) => (refused() ? refuse("EIO")() : nodeFileCalls.fsync(fd)),
  };
}

/** Each way in which the file system can fail while a whole file is put in place, before it has its name for good. */
export const failures: [string, () => Partial<FileCalls>][] = [
  ["opening", () => ({ openSync: refuse("EIO") })],
  ["writing", () => ({ writeSync: refuse("ENOSPC") })],
  ["writing, without an error", () => ({ writeSync: () => 0 })],
  ["syncing", () => failingSyncs(() => true)],
  ["syncing the folder", () => failingSyncs((count) => count === 2)],
  ["linking", () => ({ linkSync: refuse("EIO") })],
];
