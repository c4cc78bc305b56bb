import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { expect, test } from "vitest";
import { temporaryFolder } from "./temporary-folder.ts";

const { folder, path } = temporaryFolder();

test("the example in the README runs, and its assertions hold", () => {
  const home = fileURLToPath(new URL("..", import.meta.url));
  const [, example] = /```ts\n([\s\S]*?)```/.exec(readFileSync(`${home}README.md`, "utf8")) ?? [];
  expect(example).toContain("assert.");
  buildSync({
    stdin: { contents: example!, resolveDir: home, loader: "ts" },
    bundle: true,
    platform: "node",
    format: "esm",
    outfile: path("example.mjs"),
  });
  execFileSync(process.execPath, [path("example.mjs")], { cwd: folder, stdio: "pipe" });
});
