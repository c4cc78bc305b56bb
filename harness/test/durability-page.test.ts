import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { harnesses } from "../src/trials.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const page = readFileSync(join(root, "docs/durability.md"), "utf8");
const promises = page
  .slice(0, page.indexOf("## The trials"))
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (promise|-)/.test(line));

/** Every test of the packages and apps, and the suite that each store must pass. */
const sources = ["packages", "apps"]
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
  .filter(({ name, parentPath }) => !parentPath.includes("node_modules") && name.endsWith(".ts"))
  .map(({ name, parentPath }) => join(parentPath, name))
  .filter((path) => path.endsWith(".test.ts") || path.includes("/testing/conformance/"));

const conformance = sources
  .filter((path) => path.includes("/testing/conformance/"))
  .map((path) => readFileSync(path, "utf8"))
  .join();

test("each promise on the durability page names existing tests", () => {
  expect(promises.length).toBeGreaterThan(20);
  for (const promise of promises) {
    const enforcedBy = promise.split("|").at(-2)!;
    const named = [...enforcedBy.matchAll(/`([^`]*\.test\.ts)`/g)].map(([, path]) => path!);
    const files = named.map((path) => sources.find((source) => source.endsWith(`/${path}`)));
    expect(files, promise).not.toContain(undefined);
    const trials = /`harness` ([a-z, ]+)/.exec(enforcedBy)?.[1]?.trim().split(", ") ?? [];
    for (const trial of trials) expect(Object.keys(harnesses), promise).toContain(trial);
    const texts = `${files.map((path) => readFileSync(path!, "utf8")).join()}${conformance}`;
    for (const [, title] of enforcedBy.matchAll(/"([^"]*?) …"/g))
      expect(texts, promise).toContain(`"${title}`);
    expect(
      named.length + trials.length + (enforcedBy.includes("conformance") ? 1 : 0),
      promise,
    ).toBeGreaterThan(0);
  }
});
