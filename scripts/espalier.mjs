// Runs the command line from a clone: `npm run -s espalier -- <arguments>`. Stdout has only the output of the command.
// The first start installs and bundles; later starts load the bundle of the same sources into this process, so that
// arguments, exit code, signals and the terminal are those of the command.
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

// Packages that are not bundled are resolved from apps/cli/node_modules.
const bundles = join(root, "apps/cli/node_modules/.cache/espalier");
const main = join(bundles, sourceKey(root), "main.js");

/** Link to the installed bundle. The settings of agents use this path, because bundle folders change with each edit. */
const installed = join(bundles, "installed");

if (!existsSync(main)) await makeBundle(dirname(main));
const isInstall = process.argv[2] === "install";
if (isInstall && !process.argv.includes("--dry-run")) linkInstalled(dirname(main));
process.argv[1] = isInstall ? join(installed, "main.js") : main;
await import(pathToFileURL(main).href);

/**
 * Builds the bundle in a temporary folder and renames it, so that other starts see all of a bundle or none, and running
 * ones keep theirs.
 */
async function makeBundle(/** @type {string} */ folder) {
  const { status } = spawnSync(process.execPath, [join(root, "scripts/setup.mjs")], {
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) process.exit(status ?? 1);
  const { bundleCommand } = await import("./command/bundle.mjs");
  const aside = `${folder}.${process.pid}`;
  mkdirSync(bundles, { recursive: true });
  // Only for people: the line is erased before the command starts.
  if (process.stderr.isTTY)
    process.stderr.write("Bundling the command, once after a change of the sources …");
  try {
    await bundleCommand(root, aside, { sourcemap: true });
    if (process.stderr.isTTY) process.stderr.write("\r\u001b[K");
  } catch (error) {
    if (process.stderr.isTTY) process.stderr.write("\n");
    rmSync(aside, { recursive: true, force: true });
    console.error(`The command line could not be bundled: ${error instanceof Error ? error.message : error}`);
    process.exit(1);
  }
  try {
    renameSync(aside, folder);
  } catch (error) {
    // Another start was faster and made the same bundle.
    rmSync(aside, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
  forgetOldBundles();
}

/** Agents run this bundle until the next installation. */
function linkInstalled(/** @type {string} */ folder) {
  const aside = `${installed}.${process.pid}`;
  symlinkSync(folder, aside, "junction");
  // On Windows, a rename does not replace a link.
  if (process.platform === "win32") rmSync(installed, { force: true });
  renameSync(aside, installed);
}

function forgetOldBundles() {
  const kept = 4;
  const place = realpathSync(bundles);
  const inUse = [join(place, "installed"), existsSync(installed) ? realpathSync(installed) : ""];
  const byAge = readdirSync(bundles)
    .map((name) => join(place, name))
    // Another start may remove old bundles at the same time.
    .map((path) => ({ path, time: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.time - a.time);
  for (const { path } of byAge.filter(({ path }) => !inUse.includes(path)).slice(kept))
    rmSync(path, { recursive: true, force: true });
}
