// Where an import leads, in terms of the workspace: to one of its files, to Node, or to a package from outside.
import { builtinModules } from "node:module";
import { posix } from "node:path";

const builtins = new Set(builtinModules);

/** @typedef {{ file?: string, owner?: import("./workspace.mjs").Package, builtin?: string, external?: string }} Target */

/**
 * A file that does not exist is left to the type check, which says it better; then the target has no `file`.
 * @returns {Target}
 */
export function resolveImport(
  /** @type {import("./workspace.mjs").Workspace} */ workspace,
  /** @type {string} */ from,
  /** @type {string} */ specifier,
) {
  const path = specifier.replace(/\?.*$/, "");
  if (path.startsWith(".")) {
    const file = posix.join(posix.dirname(from), path);
    const owner = workspace.packages.find(({ folder }) => file.startsWith(`${folder}/`));
    return owner ? { file, owner } : { file };
  }
  if (path.startsWith("node:") || builtins.has(path)) return { builtin: path.replace(/^(node:)?/, "node:") };
  const name = packageName(path);
  const owner = workspace.packages.find((candidate) => candidate.name === name);
  if (!owner) return { external: name };
  const entry = sourceEntries(owner)[path === name ? "." : `./${path.slice(name.length + 1)}`];
  return entry ? { file: entry, owner } : { owner };
}

/** `@scope/name/sub/path` → `@scope/name` */
export function packageName(/** @type {string} */ specifier) {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/**
 * The public doors of a package: subpath → source file from the root.
 * @returns {Record<string, string>}
 */
export function sourceEntries(/** @type {import("./workspace.mjs").Package} */ { folder, manifest }) {
  const doors = Object.entries(manifest.exports ?? {});
  return Object.fromEntries(
    doors
      .filter(([, file]) => typeof file === "string")
      .map(([door, file]) => [door, posix.join(folder, file)]),
  );
}
