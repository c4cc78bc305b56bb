// The contenders are installed here, by npm from the lockfile beside, and not with the workspace: they weigh 430 MB.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export function installContenders(/** @type {string} */ folder) {
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8");
  const stamp = join(folder, "node_modules/.installed-lock.json");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  console.error("Installing the contenders (a few minutes, once) …");
  const { status } = spawnSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: folder,
    stdio: ["ignore", 2, 2],
  });
  // What cannot be installed is said to be missing, line by line.
  if (status === 0) writeFileSync(stamp, lock);
  else console.error("The contenders could not be installed; measuring without those that are missing.");
}
