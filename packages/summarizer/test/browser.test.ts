import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, it } from "vitest";

it("the root entry runs in a browser, and loads no SDK before the first request", async () => {
  const { metafile, outputFiles } = await build({
    entryPoints: [fileURLToPath(import.meta.resolve("@espalier/summarizer"))],
    bundle: true,
    write: false,
    metafile: true,
    platform: "browser",
    format: "esm",
    external: ["@anthropic-ai/sdk"],
    logLevel: "silent",
  });
  const inputs = Object.keys(metafile.inputs);
  expect(inputs.some((input) => input.includes("src/anthropic-summarizer.ts"))).toBe(true);
  expect(inputs.filter((input) => input.includes("src/testing/"))).toEqual([]);
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  expect(imports.map(({ path, kind }) => [path, kind])).toEqual([["@anthropic-ai/sdk", "dynamic-import"]]);
  expect(outputFiles).toHaveLength(1);
});
