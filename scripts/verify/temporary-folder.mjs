// What tests leave in the temporary folder, and what the processes do that they start, is gone when a run ends.
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Before the first test of a run. */
export function setup(/** @type {import("vitest/node").TestProject} */ project) {
  // Every project inherits this; one folder is enough for a run.
  if (!project.isRootProject()) return undefined;
  // Short: sockets lie below it, and their paths have 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), "espalier-"));
  // A server may run as another user, who has to pass through.
  chmodSync(folder, 0o711);
  const before = process.env["TMPDIR"];
  // Workers, and what tests start, inherit it.
  process.env["TMPDIR"] = folder;
  return () => {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  };
}
