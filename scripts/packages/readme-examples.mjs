// Every TypeScript example of the READMEs that are published, as the JavaScript that somebody would run.
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { transformSync } from "esbuild";
import { root } from "../tools.mjs";
import { publishableFolders } from "./pack.mjs";

/** @returns {{ name: string, code: string }[]} */
export function readmeExamples() {
  return [root, ...publishableFolders()].flatMap((folder) => {
    const readme = join(folder, "README.md");
    if (!existsSync(readme)) return [];
    const fences = [...readFileSync(readme, "utf8").matchAll(/^```ts\n(.*?)^```/gms)];
    return fences.map(([, example = ""], at) => ({
      name: `${folder === root ? "readme" : basename(folder)}-${at + 1}.mjs`,
      code: transformSync(example, { loader: "ts", format: "esm", target: "node20" }).code,
    }));
  });
}
