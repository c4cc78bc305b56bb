import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, it } from "vitest";

it("the root entry runs in a browser: its bundle has no Node module", async () => {
  const { metafile } = await build({
    entryPoints: [fileURLToPath(import.meta.resolve("@espalier/extensions"))],
    bundle: true,
    write: false,
    metafile: true,
    platform: "browser",
    format: "esm",
    logLevel: "silent",
  });
  const inputs = Object.keys(metafile.inputs);
  expect(inputs.some((input) => input.includes("src/host.ts"))).toBe(true);
  expect(inputs.filter((input) => /src\/node\/|jiti/.test(input))).toEqual([]);
});
