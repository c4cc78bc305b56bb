// Every TypeScript example of the README that is published, as the JavaScript that a reader would run.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { transformSync } from "esbuild";
import { root } from "../tools.mjs";

/** @returns {{ name: string, code: string }[]} */
export function readmeExamples() {
  const fences = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/^```ts\n(.*?)^```/gms)];
  return fences.map(([, example = ""], at) => ({
    name: `readme-${at + 1}.mjs`,
    code: transformSync(example, { loader: "ts", format: "esm", target: "node20" }).code,
  }));
}
