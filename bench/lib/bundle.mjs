// This project as it is published: compiled and bundled, nothing of it from source at run time.
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));

/**
 * Bundles every public entry of every package into a file of its own, named after it: `sessionTree.mjs`,
 * `sessionTreeNode.mjs`. What several need stands in files that they share.
 */
export async function bundleProject(/** @type {string} */ folder) {
  // The workspace's own esbuild: bench installs nothing that is already there.
  const { build } = await import(createRequire(join(root, "package.json")).resolve("esbuild"));
  const folders = readdirSync(join(root, "packages")).map((name) => join(root, "packages", name));
  const entries = folders.flatMap((folder) => {
    const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return (
      Object.entries(manifest.exports)
        .filter(
          ([door, target]) =>
            typeof target === "string" &&
            target.endsWith(".ts") &&
            (door !== "./testing" || isMeasured(manifest)),
        )
        .map(([door, target]) => ({ name: nameOf(manifest.name, door), path: join(folder, String(target)) }))
        // A package that is being written may announce a door before it has one.
        .filter(({ path }) => existsSync(path))
    );
  });
  rmSync(folder, { recursive: true, force: true });
  await build({
    entryPoints: Object.fromEntries(entries.map(({ name, path }) => [name, path])),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    splitting: true,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: ["jiti", "pg-native", "cloudflare:sockets"],
    banner: {
      js: "import{createRequire as bundleRequire}from'node:module';const require=bundleRequire(import.meta.url);",
    },
    logLevel: "warning",
  });
}

/** Only a database that is to be measured has to be started first. */
const isMeasured = (/** @type {{ name: string }} */ { name }) => name === "@espalier/store-postgres";

/** `@espalier/session-tree` and `./node` make `sessionTreeNode`. */
function nameOf(/** @type {string} */ packageName, /** @type {string} */ door) {
  const words = `${packageName.split("/").at(-1)}${door.slice(1)}`.split(/[-/]/).filter(Boolean);
  return words.map((word, at) => (at === 0 ? word : word[0].toUpperCase() + word.slice(1))).join("");
}
