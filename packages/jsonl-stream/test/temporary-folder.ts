import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** Names of files that do not exist yet, in a folder that is removed after the tests of this file. */
export function temporaryFolder(): { folder: string; path: (name?: string) => string } {
  const folder = mkdtempSync(join(tmpdir(), "jsonl-stream-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let count = 0;
  const path = (name?: string): string => {
    count += 1;
    return join(folder, name ?? `file-${count}.jsonl`);
  };
  return { folder, path };
}

/** The same path, after an empty file was put there unless there is one. */
export function existing(file: string): string {
  closeSync(openSync(file, "a", 0o600));
  return file;
}
