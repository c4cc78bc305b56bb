// Every package lists what it imports in its own package.json.
import { resolveImport } from "./resolve.mjs";

/** @returns {string[]} */
export function checkManifests(/** @type {import("./workspace.mjs").Workspace} */ workspace) {
  return workspace.packages.flatMap((owner) => checkImports(workspace, owner));
}

/** @returns {string[]} */
function checkImports(
  /** @type {import("./workspace.mjs").Workspace} */ workspace,
  /** @type {import("./workspace.mjs").Package} */ owner,
) {
  const { dependencies, peerDependencies, optionalDependencies, devDependencies } = owner.manifest;
  const shipped = { ...dependencies, ...peerDependencies, ...optionalDependencies };
  const atHome = { ...shipped, ...devDependencies, ...workspace.rootManifest.devDependencies };
  // These become one bundle: their dependencies are installed only here.
  const isBundled = owner.folder.startsWith("apps/") || owner.folder === "packages/espalier";
  const bundled = isBundled ? devDependencies : {};
  /** @type {Map<string, string>} */
  const missing = new Map();
  for (const file of owner.files) {
    const published = file.path.startsWith(`${owner.folder}/src/`) && !/\.test\.tsx?$/.test(file.path);
    const allowed = published ? { ...shipped, ...bundled } : atHome;
    for (const { specifier, line } of file.imports) {
      const target = resolveImport(workspace, file.path, specifier);
      const name = target.external ?? (specifier.startsWith(".") ? undefined : target.owner?.name);
      if (!name || name === owner.name || name in allowed || missing.has(name)) continue;
      const field = published && !isBundled ? "dependencies" : "devDependencies";
      missing.set(
        name,
        `${file.path}:${line} imports "${name}": add it to the ${field} of ${owner.folder}/package.json.`,
      );
    }
  }
  return [...missing.values()];
}
