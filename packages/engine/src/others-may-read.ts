import { statSync } from "node:fs";
import { dirname, isAbsolute } from "node:path";

/**
 * Whether other users of this machine may read a session's file: its rights and those of its folder let them. False for
 * a name in a store.
 */
export function othersMayRead(file: string): boolean {
  if (process.platform === "win32" || !isAbsolute(file)) return false;
  const facts = statSync(file, { throwIfNoEntry: false });
  const folder = statSync(dirname(file), { throwIfNoEntry: false });
  if (!facts?.isFile() || !folder) return false;
  // Group and others each by themselves: read the file, enter the folder.
  return [3, 0].some((shift) => ((facts.mode >> shift) & 4) !== 0 && ((folder.mode >> shift) & 1) !== 0);
}
