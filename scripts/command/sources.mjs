// Identifies the state of the sources behind a bundle, in a few milliseconds.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** Returns a key for the current state of all sources of the command: their paths, sizes and modification times. */
export function sourceKey(/** @type {string} */ root) {
  const hash = createHash("sha1");
  const add = (/** @type {string} */ path) => {
    // The file may be an editor's temporary file that was just removed.
    const found = statSync(path, { throwIfNoEntry: false });
    if (found) hash.update(`${path} ${found.size} ${found.mtimeMs}\n`);
  };
  const addFolder = (/** @type {string} */ folder) => {
    if (!existsSync(folder)) return;
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
      if (!entry.isDirectory()) add(join(entry.parentPath, entry.name));
  };
  hash.update(`${process.version}\n`);
  for (const file of ["pnpm-lock.yaml", "scripts/command/bundle.mjs", "scripts/command/viewer-page.mjs"])
    add(join(root, file));
  for (const file of ["index.html", "vite.config.ts"]) add(join(root, "apps/viewer", file));
  addFolder(join(root, "apps/cli/assets"));
  for (const folder of ["apps/cli", "apps/viewer", ...packageFolders(root)]) {
    if (!existsSync(join(root, folder, "package.json"))) continue;
    add(join(root, folder, "package.json"));
    addFolder(join(root, folder, "src"));
  }
  return hash.digest("hex").slice(0, 16);
}

function packageFolders(/** @type {string} */ root) {
  return readdirSync(join(root, "packages")).map((name) => `packages/${name}`);
}
