import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";

const here = fileURLToPath(new URL("../..", import.meta.url));
const clone = mkdtempSync(join(tmpdir(), "espalier-setup-"));
afterAll(() => rmSync(clone, { recursive: true }));

test("a setup makes a broken link of pnpm again", () => {
  const state = join(clone, "node_modules/.pnpm-workspace-state-v1.json");
  for (const folder of ["scripts", "node_modules/.bin", "node_modules/pnpm", "programs"])
    mkdirSync(join(clone, folder), { recursive: true });
  cpSync(join(here, "scripts/setup.mjs"), join(clone, "scripts/setup.mjs"));
  writeFileSync(join(clone, "package.json"), JSON.stringify({ packageManager: "pnpm@12.21.0" }));
  writeFileSync(state, "{}");
  symlinkSync("../nowhere/pnpm", join(clone, "node_modules/.bin/pnpm"));
  // As npx does, it prefers the package of the folder in which it runs, even if its link is broken.
  const npx = '#!/bin/sh\n[ -e node_modules/pnpm ] && exec no-such-pnpm\necho "$@"\n';
  writeFileSync(join(clone, "programs/npx"), npx, { mode: 0o755 });
  const { status, stderr } = spawnSync(process.execPath, [join(clone, "scripts/setup.mjs")], {
    env: { ...process.env, PATH: `${join(clone, "programs")}${delimiter}${process.env["PATH"]}` },
    encoding: "utf8",
  });
  expect([status, stderr]).toEqual([
    0,
    `--yes --loglevel=error pnpm@12.21.0 --dir ${clone}/ install --frozen-lockfile --reporter=silent\n`,
  ]);
  // With its state, pnpm would believe that every link is there.
  expect(existsSync(state)).toBe(false);
});
