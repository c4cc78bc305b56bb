import { constants } from "node:fs";
import { JsonlError } from "../jsonl-error.ts";
import type { FileFacts } from "./file-calls.ts";

const KINDS = new Map<number, string>([
  [constants.S_IFLNK, "a symbolic link, which is not followed; name the file it leads to."],
  [constants.S_IFDIR, "a folder; name a file in it."],
  [constants.S_IFIFO, "a FIFO; name a regular file."],
  [constants.S_IFSOCK, "a socket; name a regular file."],
  [constants.S_IFCHR, "a device; name a regular file."],
  [constants.S_IFBLK, "a device; name a regular file."],
]);

/** Refuses whatever is no regular file, saying what it is. */
export function checkKind(path: string, facts: FileFacts): void {
  const kind = KINDS.get(Number(facts.mode) & constants.S_IFMT);
  if (kind !== undefined) throw new JsonlError("not-a-file", `${path} is ${kind}`);
}

/** Refuses a file of another user, who could read whatever we write to it. Windows has no such owners. */
export function checkOwner(path: string, { uid }: FileFacts): void {
  const own = process.geteuid?.();
  if (own === undefined || Number(uid) === own) return;
  throw new JsonlError(
    "not-ours",
    `${path} belongs to user ${uid}, not to ${own}; write as its owner, or to a copy.`,
  );
}

/** True when both are the same file, under whatever names. */
export function isSameFile(one: FileFacts, other: FileFacts): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}
