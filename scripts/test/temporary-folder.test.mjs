// What tests leave in the temporary folder, through the door that vitest uses.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { setup } from "../verify/temporary-folder.mjs";

const projectThat = (/** @type {boolean} */ isRoot) =>
  /** @type {import("vitest/node").TestProject} */ (/** @type {unknown} */ ({ isRootProject: () => isRoot }));

test("a run has its own temporary folder, which is removed with its contents at the end", () => {
  const before = tmpdir();
  const end = setup(projectThat(true));
  const during = tmpdir();
  expect(dirname(during)).toBe(before);
  mkdirSync(join(during, "espalier-left"));
  writeFileSync(join(during, "espalier-left", "behind"), "");
  end?.();
  expect(tmpdir()).toBe(before);
  expect(existsSync(during)).toBe(false);
});

test("the projects of a run share the folder", () => {
  const before = tmpdir();
  expect(setup(projectThat(false))).toBeUndefined();
  expect(tmpdir()).toBe(before);
});

test("tests run in such a folder", () => {
  expect(tmpdir()).toMatch(/espalier-\w{6}$/);
});
