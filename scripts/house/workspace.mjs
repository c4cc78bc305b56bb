// Reads the workspace once, as plain data, so that every rule of the house is a pure function of it.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readSource } from "./source.mjs";

/**
 * @typedef {object} Package One package of the workspace.
 * @property {string} name as npm knows it
 * @property {string} folder from the root, with forward slashes: `packages/engine`
 * @property {Record<string, any>} manifest its package.json
 * @property {import("./source.mjs").SourceFile[]} files its sources and tests
 */
/** @typedef {{ rootManifest: Record<string, any>, packages: Package[], scripts: import("./source.mjs").SourceFile[] }} Workspace */

const groups = ["packages", "apps"];
const single = ["examples", "harness", "bench", "docs"];
const skippedAnywhere = new Set(["node_modules", "dist", "fixtures", "coverage"]);
/** What a package carries or makes beside its sources. */
const skippedBesideSources = /^[^/]+(\/[^/]+)?\/(assets|public|api)$/;
const source = /(?<!\.d)\.(ts|tsx|mjs)$/;

/** @returns {Workspace} */
export function readWorkspace(/** @type {string} */ root) {
  const folders = [...groups.flatMap((group) => foldersIn(root, group)), ...single];
  const packages = folders
    .filter((folder) => existsSync(join(root, folder, "package.json")))
    .map((folder) => {
      const manifest = readManifest(join(root, folder, "package.json"));
      return { name: manifest.name, folder, manifest, files: sourcesIn(root, folder) };
    });
  return {
    rootManifest: readManifest(join(root, "package.json")),
    packages,
    scripts: sourcesIn(root, "scripts"),
  };
}

/** @returns {Record<string, any>} */
function readManifest(/** @type {string} */ file) {
  return JSON.parse(readFileSync(file, "utf8"));
}

function foldersIn(/** @type {string} */ root, /** @type {string} */ group) {
  if (!existsSync(join(root, group))) return [];
  const entries = readdirSync(join(root, group), { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => `${group}/${entry.name}`);
}

/** @returns {import("./source.mjs").SourceFile[]} */
function sourcesIn(/** @type {string} */ root, /** @type {string} */ folder) {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        const hidden = entry.name.startsWith(".") || skippedAnywhere.has(entry.name);
        return hidden || skippedBesideSources.test(path) ? [] : sourcesIn(root, path);
      }
      return source.test(entry.name) ? [readSource(path, readFileSync(join(root, path), "utf8"))] : [];
    });
}
