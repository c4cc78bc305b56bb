// Every TypeScript example of a README, as the JavaScript that somebody would run.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { transformSync } from "esbuild";
import { root } from "../tools.mjs";

/** @returns {{ name: string, code: string }[]} */
export function readmeExamples() {
  const folders = ["packages", "apps"].flatMap((group) =>
    readdirSync(join(root, group)).map((name) => join(group, name)),
  );
  return ["", ...folders].flatMap((folder) => {
    const readme = join(root, folder, "README.md");
    if (!existsSync(readme)) return [];
    const fences = [...readFileSync(readme, "utf8").matchAll(/^```ts\n(.*?)^```/gms)];
    return fences.map(([, example = ""], at) => ({
      name: `${folder.replace("/", "-") || "readme"}-${at + 1}.mjs`,
      code: transformSync(example, { loader: "ts", format: "esm", target: "node20" }).code,
    }));
  });
}
