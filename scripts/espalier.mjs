// Runs the command line from a clone: `npm run -s espalier -- <arguments>`. stdout holds the program's bytes alone.
// The first start installs and bundles; later ones find the bundle of the same sources and load it into this very process,
// so that arguments, exit code, signals and the terminal are the program's own.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { sourceKey } from "./command/sources.mjs";
import { root } from "./tools.mjs";

// Packages that stay outside the bundle resolve from apps/cli/node_modules.
const bundles = join(root, "apps/cli/node_modules/.cache/espalier");
const main = join(bundles, sourceKey(root), "main.js");

if (!existsSync(main)) await makeBundle(dirname(main));
process.argv[1] = main;
await import(pathToFileURL(main).href);

/** Built aside and moved into place whole: another start sees all of a bundle or none, and running ones keep theirs. */
async function makeBundle(/** @type {string} */ folder) {
  const { status } = spawnSync(process.execPath, [join(root, "scripts/setup.mjs")], {
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) process.exit(status ?? 1);
  const { bundleCommand } = await import("./command/bundle.mjs");
  const aside = `${folder}.${process.pid}`;
  mkdirSync(bundles, { recursive: true });
  try {
    await bundleCommand(root, aside, { sourcemap: true });
  } catch (error) {
    rmSync(aside, { recursive: true, force: true });
    console.error(`The command line could not be bundled: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  }
  try {
    renameSync(aside, folder);
  } catch (error) {
    // Another start was faster; its bundle is the same.
    rmSync(aside, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
  forgetOldBundles();
}

function forgetOldBundles() {
  const kept = 4;
  const byAge = readdirSync(bundles)
    .map((name) => join(bundles, name))
    // Another start may be tidying up at the same time.
    .map((path) => ({ path, time: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.time - a.time);
  for (const { path } of byAge.slice(kept)) rmSync(path, { recursive: true, force: true });
}
