import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { checkHouse } from "../house/rules.mjs";

/** @type {string[]} */
const planted = [];
afterEach(() => {
  for (const folder of planted.splice(0)) rmSync(folder, { recursive: true });
});

function library(name, dependencies = {}) {
  return JSON.stringify({
    name: `@espalier/${name}`,
    exports: { ".": "./src/index.ts" },
    dependencies,
  });
}

const limits = {
  lines: 10,
  testLines: 20,
  filesInFolder: 3,
  oneImporter: 1,
  openers: 0.5,
  names: 3,
  doors: {},
};

const rootManifest = (changes = {}) =>
  JSON.stringify({
    name: "house",
    devDependencies: { vitest: "4.1.12" },
    house: { ...limits, ...changes },
  });

/** A small house in order; each test changes or adds files and reads the sentences. */
const inOrder = {
  "package.json": rootManifest(),
  "packages/jsonl-stream/package.json": library("jsonl-stream"),
  "packages/jsonl-stream/src/index.ts": `export { scan } from "./scan.ts";\n`,
  "packages/jsonl-stream/src/scan.ts": "export const scan = () => [];\n",
  "packages/session-tree/package.json": library("session-tree", { "@espalier/jsonl-stream": "workspace:*" }),
  "packages/session-tree/src/index.ts": `export { tree } from "./tree.ts";\n`,
  "packages/session-tree/src/tree.ts": `import { scan } from "@espalier/jsonl-stream";\nexport const tree = scan();\n`,
  "packages/session-tree/test/tree.test.ts": `import { tree } from "@espalier/session-tree";\nimport { test } from "vitest";\ntest("", () => tree);\n`,
  "packages/extensions/package.json": library("extensions"),
  "packages/extensions/src/index.ts": "",
  "packages/compaction/package.json": library("compaction", { "@espalier/session-tree": "workspace:*" }),
  "packages/compaction/src/index.ts": `export { tree } from "@espalier/session-tree";\n`,
  "packages/branch-summary/package.json": library("branch-summary"),
  "packages/branch-summary/src/index.ts": "",
};

/** Runs the command on the last planted house. */
const command = (...options) =>
  spawnSync(process.execPath, ["scripts/check-house.mjs", planted.at(-1), ...options], {
    cwd: new URL("../..", import.meta.url),
    encoding: "utf8",
  });

function violations(changes = {}) {
  const root = mkdtempSync(join(tmpdir(), "espalier-house-"));
  planted.push(root);
  for (const [path, text] of Object.entries({ ...inOrder, ...changes })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return checkHouse(root);
}

test("a house in order has no violations", () => {
  expect(violations()).toEqual([]);
});

test("the command prints each violation and ends with 1", () => {
  const found = violations({ "packages/jsonl-stream/src/utils.ts": "" });
  const { status, stdout } = command();
  expect([status, stdout]).toEqual([1, `${found[0]}\n`]);
});

test("an import from a higher row is named with file and line", () => {
  expect(
    violations({
      "packages/jsonl-stream/src/scan.ts": `// why\nimport type { tree } from "@espalier/session-tree";\nexport const scan = (): typeof tree => [];\n`,
    }),
  ).toContain(
    'packages/jsonl-stream/src/scan.ts:2 imports "@espalier/session-tree", but packages/session-tree is above packages/jsonl-stream: imports go down the house.',
  );
});

test("dynamic imports and imports in types count as imports too", () => {
  const found = violations({
    "packages/jsonl-stream/src/scan.ts": `export const scan = () => import("@espalier/session-tree");\nexport type Tree = import("@espalier/session-tree").Tree;\n`,
  });
  expect(found.filter((line) => line.includes("is above"))).toHaveLength(2);
});

test("two packages of one row do not import each other", () => {
  expect(
    violations({
      "packages/branch-summary/package.json": library("branch-summary", {
        "@espalier/compaction": "workspace:*",
      }),
      "packages/branch-summary/src/index.ts": `export { tree } from "@espalier/compaction";\n`,
    }),
  ).toEqual([
    'packages/branch-summary/src/index.ts:1 imports "@espalier/compaction", but packages/compaction is in the same row, and packages of one row do not import each other.',
  ]);
});

test("the package of hooks imports no other package", () => {
  expect(
    violations({
      "packages/extensions/package.json": library("extensions", { "@espalier/session-tree": "workspace:*" }),
      "packages/extensions/src/index.ts": `export { tree } from "@espalier/session-tree";\n`,
    }),
  ).toEqual([
    'packages/extensions/src/index.ts:1 imports "@espalier/session-tree", but packages/extensions imports no other package of the workspace.',
  ]);
});

test("a package without a row is reported", () => {
  expect(
    violations({ "packages/attic/package.json": library("attic"), "packages/attic/src/index.ts": "" }),
  ).toEqual(["packages/attic has no row: add it to `rows` in scripts/house/rules.mjs."]);
});

test("a relative import does not leave its package, and a public name needs a door", () => {
  const found = violations({
    "packages/session-tree/src/tree.ts": `import { scan } from "../../jsonl-stream/src/scan.ts";\nimport "@espalier/jsonl-stream/hidden";\nexport const tree = scan();\n`,
  });
  expect(found.filter((line) => line.includes(" imports "))).toEqual([
    'packages/session-tree/src/tree.ts:1 imports "../../jsonl-stream/src/scan.ts" from outside of its package: import @espalier/jsonl-stream by its public name.',
    'packages/session-tree/src/tree.ts:2 imports "@espalier/jsonl-stream/hidden", which packages/jsonl-stream does not export.',
  ]);
});

test("a root entry for browsers does not reach Node, not even through another package", () => {
  const found = violations({
    "packages/jsonl-stream/src/scan.ts": `import { readFileSync } from "fs";\nexport const scan = () => [readFileSync];\n`,
  });
  expect(found).toContain(
    "@espalier/jsonl-stream runs in a browser, but its root entry reaches node:fs by packages/jsonl-stream/src/index.ts → packages/jsonl-stream/src/scan.ts: move that to the ./node entry.",
  );
  expect(found.filter((line) => line.startsWith("@espalier/compaction runs in a browser"))).toHaveLength(1);
});

test("another browser entry has the same rules, and must exist", () => {
  const manifest = JSON.parse(library("engine"));
  const engine = {
    "packages/engine/src/index.ts": `export { read } from "./read.ts";\n`,
    "packages/engine/src/read.ts": `import { readFileSync } from "node:fs";\nexport const read = readFileSync;\n`,
    "packages/engine/src/reading/index.ts": `export { read } from "../read.ts";\n`,
  };
  expect(violations({ ...engine, "packages/engine/package.json": JSON.stringify(manifest) })).toContain(
    'packages/engine has no entry "./reading", which browsers load: give "exports" one.',
  );
  manifest.exports["./reading"] = "./src/reading/index.ts";
  expect(violations({ ...engine, "packages/engine/package.json": JSON.stringify(manifest) })).toEqual([
    "@espalier/engine runs in a browser, but its entry ./reading reaches node:fs by packages/engine/src/reading/index.ts → packages/engine/src/read.ts: leave that to another entry.",
  ]);
});

test("a root entry for browsers may import Node's types and load Node late", () => {
  expect(
    violations({
      "packages/jsonl-stream/src/scan.ts": `import type { Stats } from "node:fs";\nexport const scan = async (): Promise<Stats[]> => [(await import("node:fs")).statSync(".")];\n`,
    }),
  ).toEqual([]);
});

test("a file with too many lines is reported", () => {
  const long = (lines) => "export const scan = () => [];\n".padEnd(30 + lines - 1, "\n");
  expect(
    violations({
      "packages/jsonl-stream/src/scan.ts": long(11),
      "packages/jsonl-stream/test/scan.test.ts": long(21),
      "packages/jsonl-stream/test/line.test.ts": long(11),
    }),
  ).toEqual([
    "packages/jsonl-stream/src/scan.ts has 11 lines, 10 at most: move a noun with its helpers into a file of its own.",
    "packages/jsonl-stream/test/scan.test.ts has 21 lines, 20 at most: move a noun with its helpers into a file of its own.",
  ]);
});

test("a folder with too many files is reported", () => {
  const files = ["a", "b", "c", "d"].map((name) => [`packages/jsonl-stream/src/line/${name}.ts`, ""]);
  expect(violations(Object.fromEntries(files))).toEqual([
    "packages/jsonl-stream/src/line has 4 files, 3 at most: divide them into subfolders.",
  ]);
});

test("files with one importer have a maximum share; types, tests and doors do not count as importers", () => {
  const files = {
    "package.json": rootManifest({ filesInFolder: 9, oneImporter: 0.2 }),
    "packages/jsonl-stream/src/scan.ts": `import { line } from "./line.ts";\nexport const scan = () => [line];\n`,
    "packages/jsonl-stream/src/line.ts":
      "// Separate from scan.ts: it is short.\nexport const line = 1;\nexport type Line = number;\n",
    "packages/jsonl-stream/src/more.ts": `import type { Line } from "./line.ts";\nexport const more: Line = 1;\n`,
    "packages/jsonl-stream/test/line.test.ts": `import { line } from "../src/line.ts";\nline;\n`,
  };
  expect(violations(files)).toEqual([
    "1 of 4 source files have one importer (25.0 %, 20.0 % at most): packages/jsonl-stream/src/line.ts …",
  ]);
  const more = `import { line } from "./line.ts";\nexport const more = line;\n`;
  expect(violations({ ...files, "packages/jsonl-stream/src/more.ts": more })).toEqual([]);
});

test("the first line of a file with one importer gives the reason", () => {
  const scan = `import { line } from "./line.ts";\nexport const scan = () => [line];\n`;
  const line = "export const line = 1;\n";
  const found = (first) =>
    violations({
      "packages/jsonl-stream/src/scan.ts": scan,
      "packages/jsonl-stream/src/line.ts": `${first}${line}`,
    });
  expect(found("// Separate from scan.ts: it is short.\n")).toEqual([]);
  expect(found("// Separate from tree.ts: it is short.\n")).toEqual([
    'packages/jsonl-stream/src/line.ts has one importer, packages/jsonl-stream/src/scan.ts: move it there, or begin it with "// Separate from scan.ts: …".',
  ]);
});

test("the command lists the files with one importer, each with that file", () => {
  violations({
    "packages/jsonl-stream/src/scan.ts": `import { line } from "./line.ts";\nexport const scan = () => [line];\n`,
    "packages/jsonl-stream/src/line.ts": "export const line = 1;\n",
  });
  const { status, stdout } = command("--list", "single");
  const line = "packages/jsonl-stream/src/line.ts <- packages/jsonl-stream/src/scan.ts\n";
  expect([status, stdout]).toEqual([0, line]);
});

test("doc comments that begin with a question word have a maximum share", () => {
  const scan = "/** What it is. */\nconst a = 1;\n/** Scans. */\nexport const scan = () => [a];\n";
  expect(violations({ "packages/jsonl-stream/src/scan.ts": scan })).toEqual([]);
  expect(
    violations({
      "packages/jsonl-stream/src/scan.ts": scan.replace("Scans.", "\n * Where it is.\n"),
    }),
  ).toEqual([
    "2 of 2 doc comments begin with a question word (100.0 %, 50.0 % at most): What it is. */, Where it is. …",
  ]);
});

test("a door for users grows only with its limit, and all doors together have a limit", () => {
  const manifest = { name: "espalier", exports: { ".": "./src/index.ts", "./extend": "./src/extend.ts" } };
  const espalier = {
    "packages/espalier/package.json": JSON.stringify({
      ...manifest,
      dependencies: { "@espalier/session-tree": "workspace:*" },
    }),
    "packages/espalier/src/index.ts": `export { tree, tree as oak } from "@espalier/session-tree";\n`,
    "packages/espalier/src/extend.ts": `export { type tree, tree as elm } from "@espalier/session-tree";\n`,
    "package.json": rootManifest({ doors: { ".": 1, "./extend": 2 } }),
  };
  expect(violations(espalier)).toEqual([
    'packages/espalier/src/index.ts exports 2 names, 1 at most: raise house.doors["."] in package.json on purpose.',
    "The doors of espalier export 4 names, 3 at most.",
  ]);
  expect(
    violations({ ...espalier, "package.json": rootManifest({ names: 4, doors: { ".": 2, "./extend": 2 } }) }),
  ).toEqual([]);
});

test("an adapter is a door with its own limit, outside of the sum", () => {
  const manifest = { name: "espalier", exports: { "./adapters/host": "./src/adapters/host.ts" } };
  const files = {
    "packages/espalier/package.json": JSON.stringify(manifest),
    "packages/espalier/src/adapters/host.ts":
      "export interface Options {}\nexport const one = 1;\nexport class Saver {}\nexport function save() {}\n",
  };
  const withLimits = (/** @type {number} */ size) => ({
    ...files,
    "package.json": rootManifest({ names: 0, doors: { "./adapters/host": size } }),
  });
  expect(violations(withLimits(3))).toEqual([
    'packages/espalier/src/adapters/host.ts exports 4 names, 3 at most: raise house.doors["./adapters/host"] in package.json on purpose.',
  ]);
  expect(violations(withLimits(4))).toEqual([]);
});

test("an index is a door", () => {
  expect(
    violations({
      "packages/jsonl-stream/src/line/index.ts": `export { scan } from "../scan.ts";\n`,
    }),
  ).toEqual([
    'packages/jsonl-stream/src/line/index.ts is not a door of its package: import the files themselves, or add it to "exports".',
  ]);
});

test("names that are too general or not kebab-case are refused", () => {
  expect(
    violations({
      "packages/jsonl-stream/src/utils.ts": "",
      "packages/jsonl-stream/test/helpers/line.ts": "",
      "packages/jsonl-stream/src/scanLines.ts": "",
    }),
  ).toEqual([
    'packages/jsonl-stream/src/scanLines.ts is named "scanLines": files and folders are kebab-case.',
    'packages/jsonl-stream/src/utils.ts is named "utils", which is too general: name it after its main noun.',
    'packages/jsonl-stream/test/helpers/line.ts is named "helpers", which is too general: name it after its main noun.',
  ]);
});

test("an index is a table of contents", () => {
  const sentence =
    'packages/jsonl-stream/src/index.ts is a table of contents: it may contain only `export { … } from "…"`.';
  expect(violations({ "packages/jsonl-stream/src/index.ts": `export * from "./scan.ts";\n` })).toEqual([
    sentence,
  ]);
  expect(violations({ "packages/jsonl-stream/src/index.ts": "export const scan = 1;\n" })).toEqual([
    sentence,
  ]);
});

test("a file that cannot be parsed is reported", () => {
  const [sentence] = violations({ "packages/jsonl-stream/src/scan.ts": "export const = ;\n" });
  expect(sentence).toMatch(/^packages\/jsonl-stream\/src\/scan\.ts cannot be parsed: /);
});
