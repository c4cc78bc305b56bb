import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";

/** A call that fails as the system would. */
export const refuse = (code: string) => (): never => {
  throw Object.assign(new Error(code), { code });
};

const failingSecondSync = (): FileCalls["fsyncSync"] => {
  let count = 0;
  return (fd) => {
    count += 1;
    if (count === 2) refuse("EIO")();
    nodeFileCalls.fsyncSync(fd);
  };
};

/** Each way in which the file system can fail while a whole file is put in place, before it has its name for good. */
export const failures: [string, () => Partial<FileCalls>][] = [
  ["opening", () => ({ openSync: refuse("EIO") })],
  ["writing", () => ({ writeSync: refuse("ENOSPC") })],
  ["writing, without a word", () => ({ writeSync: () => 0 })],
  ["syncing", () => ({ fsyncSync: refuse("EIO") })],
  ["syncing the folder", () => ({ fsyncSync: failingSecondSync() })],
  ["linking", () => ({ linkSync: refuse("EIO") })],
];
