// The tarballs that would be published.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { root, toolEnvironment } from "../tools.mjs";

/**
 * @typedef {object} Packed
 * @property {string} name
 * @property {string} tarball absolute path
 * @property {number} size bytes
 * @property {string[]} files paths inside the package
 */

/** @returns {string[]} the folders of every package that is not private */
export function publishableFolders() {
  return ["packages", "apps"]
    .flatMap((group) => readdirSync(join(root, group)).map((name) => join(root, group, name)))
    .filter((folder) => existsSync(join(folder, "package.json")))
    .filter((folder) => !JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).private);
}

/**
 * Builds from nothing, so that no file of a renamed source is left in a dist; turbo puts back what it has built before.
 * @returns {boolean} whether it worked; the compiler has then said why not on stderr
 */
export function buildAfresh(/** @type {string[]} */ folders) {
  for (const folder of folders) rmSync(join(folder, "dist"), { recursive: true, force: true });
  const options = ["run", "build", "--output-logs=errors-only"];
  const { status } = spawnSync("turbo", options, {
    cwd: root,
    env: toolEnvironment,
    stdio: ["ignore", 2, 2],
  });
  return status === 0;
}

/** @returns {Packed} */
export function pack(/** @type {string} */ folder, /** @type {string} */ destination) {
  const options = ["pack", "--pack-destination", destination, "--json"];
  const { name, filename, size, files } = JSON.parse(
    execFileSync("pnpm", options, {
      cwd: folder,
      env: toolEnvironment,
      encoding: "utf8",
      stdio: ["ignore", "pipe", 2],
    }),
  );
  return {
    name,
    tarball: filename,
    size,
    files: files.map((/** @type {{ path: string }} */ file) => file.path),
  };
}
