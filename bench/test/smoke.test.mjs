import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { lines } from "../lines.mjs";

const bench = fileURLToPath(new URL("..", import.meta.url));

const run = (...options) =>
  spawnSync(process.execPath, [join(bench, "bench.mjs"), ...options], { encoding: "utf8" });

test("--help prints the options and the names of all lines", () => {
  const { status, stdout, stderr } = run("--help");
  expect(stderr).toBe("");
  expect(stdout).toContain("--only <names>");
  for (const { name } of lines) expect(stdout).toContain(name);
  expect(status).toBe(0);
});

test("an unknown line or option is refused in one sentence", () => {
  const line = run("--only", "open,opne");
  expect(line.stderr).toMatch(/^--only: there is no line "opne"\. The lines are .*open.*\.\n$/);
  expect(line.status).toBe(2);
  const option = run("--onyl", "open");
  expect(option.stderr).toBe("Unknown option '--onyl'. See node bench.mjs --help.\n");
  expect(option.status).toBe(2);
});

test("every line of the bench runs with tiny sizes", () => {
  const folder = mkdtempSync(join(tmpdir(), "espalier-bench-test-"));
  const { status, stdout, stderr } = run("--smoke", "--folder", folder);
  rmSync(folder, { recursive: true, force: true });
  expect(stderr).not.toContain("could not be measured");
  expect(stdout).toMatch(/\d+ goals hold, \d+ do not, \d+ were not measured\./);
  expect(stderr.match(/^… /gm)).toHaveLength(lines.length);
  expect(status).toBe(0);
});
