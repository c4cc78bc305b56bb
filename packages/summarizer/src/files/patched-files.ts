import type { TouchedFiles } from "./file-tool.ts";

const HEADER = /^[ \t]*\*\*\* (Add|Update|Delete) File: (.+?)[ \t]*\r?$/gm;
const MOVE = /^[ \t]*\*\*\* Move to: (.+?)[ \t]*\r?$/gm;
const DIFF_FILES = /^--- (?:a\/)?([^\t\r\n]+).*\r?\n\+\+\+ (?:b\/)?([^\t\r\n]+)/gm;

/** The files that a patch touches: in the form with `*** Update File:` headers, or a unified diff. */
export function patchedFiles(patch: string): TouchedFiles {
  const written: string[] = [];
  const edited: string[] = [];
  for (const [, kind, path] of patch.matchAll(HEADER)) (kind === "Add" ? written : edited).push(path!);
  for (const [, path] of patch.matchAll(MOVE)) written.push(path!);
  for (const [, before, after] of patch.matchAll(DIFF_FILES)) {
    if (before === "/dev/null") written.push(after!);
    else if (after === "/dev/null") edited.push(before!);
    else edited.push(after!);
  }
  return { written, edited };
}
