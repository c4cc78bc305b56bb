import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { lines } from "../lines.mjs";

const bench = fileURLToPath(new URL("..", import.meta.url));

test("every line of the bench runs with tiny sizes", () => {
  const folder = mkdtempSync(join(tmpdir(), "espalier-bench-test-"));
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(bench, "bench.mjs"), "--smoke", "--folder", folder],
    { encoding: "utf8" },
  );
  rmSync(folder, { recursive: true, force: true });
  expect(stderr).not.toContain("could not be measured");
  expect(stdout).toMatch(/\d+ goals hold, \d+ do not, \d+ were not measured\./);
  expect(stderr.match(/^… /gm)).toHaveLength(lines.length);
  expect(status).toBe(0);
});
