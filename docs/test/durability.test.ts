import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "./desk.ts";

const PACKAGES = join(ROOT, "packages");
const page = readFileSync(join(ROOT, "docs/durability.md"), "utf8");

/** The second cells of the tables of promises. */
const enforced = page
  .split("\n")
  .filter((line) => /^\| .* \| .* \|$/.test(line) && /\.test\.ts`|conformance "|`harness`/.test(line))
  .map((line) => line.slice(line.lastIndexOf(" | ") + 3, -2).trim());

/** Test files of a name: one where a package or an app is in front, else every file of that name. */
function filesOf(name: string): string[] {
  if (name.startsWith("apps/")) return [join(ROOT, name)];
  if (name.includes("/")) return [join(PACKAGES, name)];
  return readdirSync(PACKAGES).map((folder) => join(PACKAGES, folder, "test", name));
}

const conformance = join(PACKAGES, "session-tree/src/testing/conformance");
const sourceOf = (name: string): string =>
  (name === "conformance"
    ? readdirSync(conformance).map((file) => join(conformance, file))
    : filesOf(name).filter((file) => existsSync(file))
  )
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");

const known = readFileSync(join(ROOT, "harness/src/trials.ts"), "utf8");

describe("the contract", () => {
  test("has promises, each with its tests", () => expect(enforced.length).toBeGreaterThan(30));

  test.each(enforced)("names tests that exist: %s", (cell) => {
    for (const [, name = "", titles = ""] of cell.matchAll(/`([\w./-]+\.test\.ts)`((?: "[^"]+",?)*)/g)) {
      expect(filesOf(name).some(existsSync), name).toBe(true);
      expectTitles(titles, sourceOf(name));
    }
    for (const [, titles = ""] of cell.matchAll(/conformance((?: "[^"]+",?)+)/g))
      expectTitles(titles, sourceOf("conformance"));
    const [, trials = ""] = /`harness` ([a-z, ]+)/.exec(cell) ?? [];
    for (const trial of trials.split(",").map((one) => one.trim()))
      if (trial) expect(known, trial).toContain(`  ${trial}: async `);
  });
});

/** Tests are named by how their titles begin; a part of the suite by its file. */
function expectTitles(titles: string, source: string): void {
  for (const [, title = ""] of titles.matchAll(/"([^"]+)"/g)) {
    const isPart = existsSync(join(conformance, `${title}.ts`));
    expect(isPart || source.includes(`"${title.replace(/ …$/, "")}`), title).toBe(true);
  }
}
