// What a package imports stands in its own package.json, and what stands there is published as it is worked on.
import { resolveImport, sourceEntries } from "./resolve.mjs";

/** @returns {string[]} */
export function checkManifests(/** @type {import("./workspace.mjs").Workspace} */ workspace) {
  return workspace.packages.flatMap((owner) => [...checkImports(workspace, owner), ...checkDoors(owner)]);
}

/** @returns {string[]} */
function checkImports(
  /** @type {import("./workspace.mjs").Workspace} */ workspace,
  /** @type {import("./workspace.mjs").Package} */ owner,
) {
  const { dependencies, peerDependencies, optionalDependencies, devDependencies } = owner.manifest;
  const shipped = { ...dependencies, ...peerDependencies, ...optionalDependencies };
  const atHome = { ...shipped, ...devDependencies, ...workspace.rootManifest.devDependencies };
  // An app is published as one bundle, so what it bundles is installed only here.
  const bundled = owner.folder.startsWith("apps/") ? devDependencies : {};
  /** @type {Map<string, string>} */
  const missing = new Map();
  for (const file of owner.files) {
    const published = file.path.startsWith(`${owner.folder}/src/`) && !/\.test\.tsx?$/.test(file.path);
    const allowed = published ? { ...shipped, ...bundled } : atHome;
    for (const { specifier, line } of file.imports) {
      const target = resolveImport(workspace, file.path, specifier);
      const name = target.external ?? (specifier.startsWith(".") ? undefined : target.owner?.name);
      if (!name || name === owner.name || name in allowed || missing.has(name)) continue;
      const field = published && !owner.folder.startsWith("apps/") ? "dependencies" : "devDependencies";
      missing.set(
        name,
        `${file.path}:${line} imports "${name}": add it to the ${field} of ${owner.folder}/package.json.`,
      );
    }
  }
  return [...missing.values()];
}

/**
 * A library is imported from source here and from dist when published: both maps name the same doors.
 * @returns {string[]}
 */
function checkDoors(/** @type {import("./workspace.mjs").Package} */ owner) {
  if (!owner.folder.startsWith("packages/") || owner.manifest.private) return [];
  const published = owner.manifest.publishConfig?.exports ?? {};
  const doors = sourceEntries(owner);
  const present = new Set(owner.files.map((file) => file.path));
  const at = `${owner.folder}/package.json`;
  return [...new Set([...Object.keys(doors), ...Object.keys(published)])].flatMap((door) => {
    const source = doors[door];
    if (!source) return [`${at} publishes "${door}" but does not export it from source.`];
    if (source.endsWith(".json")) {
      const asItIs = `./${source.slice(owner.folder.length + 1)}`;
      if (published[door] === asItIs) return [];
      return [`${at} must publish "${door}" as "${asItIs}": data is the same file here and there.`];
    }
    if (!present.has(source)) return [`${at} exports "${door}" from ${source}, which does not exist.`];
    const stem = source.slice(`${owner.folder}/src/`.length).replace(/\.tsx?$/, "");
    const expected = { types: `./dist/${stem}.d.ts`, default: `./dist/${stem}.js` };
    if (JSON.stringify(published[door]) === JSON.stringify(expected)) return [];
    return [`${at} must publish "${door}" as ${JSON.stringify(expected)} (publishConfig.exports).`];
  });
}
