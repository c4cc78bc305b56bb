import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { findExtensions } from "@espalier/extensions/node";
import { afterEach, beforeEach, expect, it } from "vitest";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "extensions-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string) => {
  mkdirSync(join(folder, name, ".."), { recursive: true });
  writeFileSync(join(folder, name), "throw new Error('finding must not run anything');");
};

it("modules and folders with an index are found, in the order of their names", async () => {
  for (const name of ["z.ts", "b.mjs", "a/index.ts", "c.js", "B.ts", "d.cjs", "e.mts", "f/index.js"])
    write(name);
  for (const name of [
    "types.d.ts",
    "types.d.mts",
    ".hidden.ts",
    ".git/index.ts",
    "README.md",
    "a/other.ts",
    "a/index.js",
    "empty/other.ts",
    "x.ts.bak",
    "data.json",
  ])
    write(name);
  mkdirSync(join(folder, "folder.ts"));
  const found = await findExtensions(folder);
  expect(found.map((file) => relative(folder, file))).toEqual([
    "B.ts",
    "a/index.ts",
    "b.mjs",
    "c.js",
    "d.cjs",
    "e.mts",
    "f/index.js",
    "z.ts",
  ]);
});

it("a link counts as its target; a link without a target, or to itself, is skipped", async () => {
  write("elsewhere/real.ts");
  symlinkSync(join(folder, "elsewhere/real.ts"), join(folder, "linked.ts"));
  symlinkSync(join(folder, "gone.ts"), join(folder, "dangling.ts"));
  symlinkSync(join(folder, "circle.ts"), join(folder, "circle.ts"));
  expect(await findExtensions(folder)).toEqual([join(folder, "linked.ts")]);
});

it("a folder that does not exist has no extensions", async () => {
  expect(await findExtensions(join(folder, "nowhere"))).toEqual([]);
});

it("a path that is not a folder is an error", async () => {
  write("file.ts");
  await expect(findExtensions(join(folder, "file.ts"))).rejects.toMatchObject({ code: "unreadable-folder" });
});
