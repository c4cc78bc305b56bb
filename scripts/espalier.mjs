// Runs the command line from a clone: `npm run -s espalier -- <arguments>`. stdout holds the program's bytes alone.
// The first start installs and bundles; later ones find the bundle of the same sources and load it into this very process,
// so that arguments, exit code, signals and the terminal are the program's own.
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { sourceKey } from "./command/sources.mjs";
import { root } from "./tools.mjs";

// Packages that stay outside the bundle resolve from apps/cli/node_modules.
const bundles = join(root, "apps/cli/node_modules/.cache/espalier");
const main = join(bundles, sourceKey(root), "main.js");

/** Link to the bundle that the settings of agents name: bundles come and go with each edit, this path stays. */
const installed = join(bundles, "installed");

if (!existsSync(main)) await makeBundle(dirname(main));
const isInstall = process.argv.includes("install");
if (isInstall && !process.argv.includes("--dry-run")) linkInstalled(dirname(main));
process.argv[1] = isInstall ? join(installed, "main.js") : main;
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

/** Agents run this bundle until the next installation. */
function linkInstalled(/** @type {string} */ folder) {
  const aside = `${installed}.${process.pid}`;
  symlinkSync(folder, aside, "junction");
  // Windows replaces no link by a renamed one.
  if (process.platform === "win32") rmSync(installed, { force: true });
  renameSync(aside, installed);
}

function forgetOldBundles() {
  const kept = 4;
  const place = realpathSync(bundles);
  const inUse = [join(place, "installed"), existsSync(installed) ? realpathSync(installed) : ""];
  const byAge = readdirSync(bundles)
    .map((name) => join(place, name))
    // Another start may be tidying up at the same time.
    .map((path) => ({ path, time: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.time - a.time);
  for (const { path } of byAge.filter(({ path }) => !inUse.includes(path)).slice(kept))
    rmSync(path, { recursive: true, force: true });
}
