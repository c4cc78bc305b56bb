import { collectFileOps } from "./collect-file-ops.ts";
import { type FileOps, newFileOps } from "./file-ops.ts";

/**
 * Adds the files that a summary tells of: those listed in its text, and those that whoever wrote it (an extension, Pi)
 * recorded in `details.readFiles` and `details.modifiedFiles`. Returns `into`.
 */
export function recordedFiles(
  entry: { summary: string; details?: unknown } | undefined,
  into: FileOps = newFileOps(),
): FileOps {
  if (!entry) return into;
  collectFileOps([{ role: "branchSummary", summary: entry.summary, fromId: "", timestamp: 0 }], [], into);
  const { readFiles, modifiedFiles } = (entry.details ?? {}) as {
    readFiles?: unknown;
    modifiedFiles?: unknown;
  };
  for (const path of texts(readFiles)) into.read.add(path);
  for (const path of texts(modifiedFiles)) into.edited.add(path);
  return into;
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
