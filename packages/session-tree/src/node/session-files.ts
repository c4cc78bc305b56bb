import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { isSessionId } from "../identifier.ts";
import type { SessionHeader } from "../session-header.ts";
import { SessionTreeError } from "../session-tree-error.ts";

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
    throw new SessionTreeError(
      "invalid-entry",
      "The session's id cannot be part of a file name; use letters, digits, `.`, `_` and `-`.",
    );
  }
  return `${timestamp.replace(/[:.]/g, "-").replace(/[^A-Za-z0-9_-]/g, "")}_${id}.jsonl`;
}

/** Where a new session is kept below a home folder. */
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

/** Everything that belongs to a session: its file, and what may lie beside it; the lease aside, which comes and goes. */
export function sessionBelongings(path: string): string[] {
  return [path, offloadFolder(path), `${path}.v1`, `${path}.v2`];
}
