// Builds the tarball that is published.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, toolEnvironment } from "../tools.mjs";
import { assemble } from "./assemble.mjs";

/**
 * @typedef {object} Packed
 * @property {string} name
 * @property {string} tarball absolute path
 * @property {number} size bytes
 * @property {string[]} files paths inside the package
 */

/**
 * Builds into an empty folder and packs, so that no file of a renamed source is left; turbo restores unchanged declarations.
 * Rejects when a source does not compile; the compiler has then written the reason to stderr.
 * @returns {Promise<Packed>}
 */
export async function packEspalier(/** @type {string} */ destination) {
  for (const name of readdirSync(join(root, "packages")))
    rmSync(join(root, "packages", name, "dist"), { recursive: true, force: true });
  const { status } = spawnSync("turbo", ["run", "build", "--output-logs=errors-only"], {
    cwd: root,
    env: toolEnvironment,
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) throw new Error("the declarations do not compile");
  const folder = mkdtempSync(join(tmpdir(), "espalier-pack-"));
  try {
    await assemble(folder);
    const options = ["pack", "--pack-destination", destination, "--json"];
    const told = execFileSync("npm", options, {
      cwd: folder,
      encoding: "utf8",
      stdio: ["ignore", "pipe", 2],
    });
    const [{ name, filename, size, files }] = JSON.parse(told);
    return {
      name,
      tarball: join(destination, filename),
      size,
      files: files.map((/** @type {{ path: string }} */ file) => file.path),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
