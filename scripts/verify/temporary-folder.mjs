// Removes the temporary files of tests, and of processes that tests start, when a run ends.
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Runs before the first test. */
export function setup(/** @type {import("vitest/node").TestProject} */ project) {
  // Every project inherits this setup, but one folder is enough for a run.
  if (!project.isRootProject()) return undefined;
  // The path is short, because it contains sockets, whose paths are limited to 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), "espalier-"));
  // A server may run as another user, who needs access to the folder's contents.
  chmodSync(folder, 0o711);
  const before = process.env["TMPDIR"];
  // Workers and processes of tests inherit this variable.
  process.env["TMPDIR"] = folder;
  return () => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
}
