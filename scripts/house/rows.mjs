// The house: each row may import from the rows below it and from nothing else.
import { packageName, resolveImport } from "./resolve.mjs";

/** From the ground up. A folder that stands in no row is a violation: say here where it belongs. */
const rows = [
  ["packages/jsonl-stream"],
  ["packages/session-tree"],
  ["packages/summarizer", "packages/extensions"],
  ["packages/compaction", "packages/branch-summary", "packages/interop", "packages/store-postgres"],
  // docs/decisions/0006: a policy is a value on the seam that compaction defines.
  ["packages/policies"],
  ["packages/engine"],
  ["packages/agent"],
  // What users install: tables of contents and nothing else.
  ["packages/espalier"],
  // docs/decisions/0009: the command carries the viewer.
  ["apps/viewer"],
  ["apps/cli"],
  ["examples", "harness", "bench", "docs"],
];

/** Hooks are values that know nothing of sessions, although the ground lies below them. */
const standsAlone = new Set(["packages/extensions"]);

/** @returns {string[]} */
export function checkRows(/** @type {import("./workspace.mjs").Workspace} */ workspace) {
  return workspace.packages.flatMap((owner) => {
    if (rowOf(owner.folder) < 0) {
      return [`${owner.folder} stands in no row of the house: give it one in scripts/house/rows.mjs.`];
    }
    const imports = owner.files.flatMap((file) => file.imports.map((entry) => ({ file, ...entry })));
    return imports.flatMap(({ file, specifier, line }) => {
      const target = resolveImport(workspace, file.path, specifier);
      const at = `${file.path}:${line}`;
      if (specifier.startsWith(".")) {
        if (target.owner === owner || !target.file) return [];
        const to = target.owner?.name ?? target.file;
        return [`${at} reaches out of its package to "${specifier}": import ${to} by its public name.`];
      }
      if (!target.owner || target.owner === owner) return [];
      if (!target.file)
        return [`${at} imports "${specifier}", which ${target.owner.folder} does not export.`];
      const reason = whyForbidden(owner.folder, target.owner.folder);
      return reason ? [`${at} imports "${packageName(specifier)}", but ${reason}.`] : [];
    });
  });
}

/** @returns {string | undefined} */
function whyForbidden(/** @type {string} */ from, /** @type {string} */ to) {
  if (standsAlone.has(from)) return `${from} knows no other package of the workspace`;
  if (rowOf(to) > rowOf(from)) return `${to} stands above ${from}: imports go down the house`;
  if (rowOf(to) === rowOf(from))
    return `${to} stands in the same row, and packages of one row do not know each other`;
  return undefined;
}

function rowOf(/** @type {string} */ folder) {
  return rows.findIndex((row) => row.includes(folder));
}
