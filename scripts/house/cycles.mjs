// No file may reach itself through its imports, types included: two files that need each other are one noun, or three.
import { resolveImport } from "./resolve.mjs";

/** @returns {string[]} one sentence per ring of files */
export function checkCycles(/** @type {import("./workspace.mjs").Workspace} */ workspace) {
  const files = [...workspace.packages.flatMap((owner) => owner.files), ...workspace.scripts];
  const known = new Map(files.map((file) => [file.path, file]));
  const targets = new Map(
    files.map((file) => [
      file.path,
      file.imports
        .map(({ specifier }) => resolveImport(workspace, file.path, specifier).file ?? "")
        .filter((path) => known.has(path)),
    ]),
  );
  return findRings(targets).map(
    (ring) =>
      `${ring[0]} imports itself through ${[...ring.slice(1), ring[0]].join(" → ")}: turn one arrow around.`,
  );
}

/**
 * Depth first with a path in hand; every ring is reported once, at the arrow that closes it.
 * @returns {string[][]}
 */
function findRings(/** @type {Map<string, string[]>} */ targets) {
  /** @type {string[][]} */
  const rings = [];
  const finished = new Set();
  /** @type {string[]} */
  const path = [];
  const visit = (/** @type {string} */ file) => {
    if (finished.has(file)) return;
    const start = path.indexOf(file);
    if (start >= 0) {
      rings.push(path.slice(start));
      return;
    }
    path.push(file);
    for (const target of targets.get(file) ?? []) visit(target);
    path.pop();
    finished.add(file);
  };
  for (const file of targets.keys()) visit(file);
  return rings;
}
