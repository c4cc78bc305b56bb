// Runs one trial of durability: npm run harness -- <name> [--short] [--seed N] [--count N] [--store NAME]. Prints one
// line of JSON; exits with 1 if a promise was broken.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { root } from "./tools.mjs";

const folder = join(root, "harness/node_modules/.cache/harness", `${process.pid}`);
await build({
  entryPoints: [join(root, "harness/src/main.ts")],
  bundle: true,
  splitting: true,
  platform: "node",
  format: "esm",
  target: "node20",
  outdir: folder,
  outExtension: { ".js": ".mjs" },
  banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  logLevel: "error",
});
const program = join(folder, "main.mjs");
const { status } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], { stdio: "inherit" });
rmSync(folder, { recursive: true, force: true });
process.exitCode = status ?? 1;
