// Entries that a browser loads must not reach Node by a static import; a dynamic import or a type may.
import { resolveImport, sourceEntries } from "./resolve.mjs";

/** @type {Record<string, string>} by folder, the entry that a browser loads */
const browserSafe = {
  "packages/jsonl-stream": ".",
  "packages/session-tree": ".",
  "packages/summarizer": ".",
  "packages/extensions": ".",
  "packages/compaction": ".",
  "packages/branch-summary": ".",
  "packages/interop": ".",
  "packages/policies": ".",
  "packages/engine": "./reading",
  "apps/viewer": "./model",
};

/** @returns {string[]} the shortest way to each Node module, one sentence per module and package */
export function checkBrowser(/** @type {import("./workspace.mjs").Workspace} */ workspace) {
  const files = new Map(workspace.packages.flatMap((owner) => owner.files).map((file) => [file.path, file]));
  return workspace.packages.flatMap((owner) => {
    const door = browserSafe[owner.folder];
    if (door === undefined) return [];
    const entry = sourceEntries(owner)[door];
    if (!entry) return [`${owner.folder} has no entry "${door}", which browsers load: give "exports" one.`];
    const cure = door === "." ? "move that to the ./node entry" : "leave that to another entry";
    return nodeModulesFrom(workspace, files, entry).map(
      ({ builtin, way }) =>
        `${owner.name} runs in a browser, but its ${door === "." ? "root entry" : `entry ${door}`} reaches ${builtin} by ${way.join(" → ")}: ${cure}.`,
    );
  });
}

function nodeModulesFrom(
  /** @type {import("./workspace.mjs").Workspace} */ workspace,
  /** @type {Map<string, import("./source.mjs").SourceFile>} */ files,
  /** @type {string} */ entry,
) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  const seen = new Set([entry]);
  const waiting = [[entry]];
  for (let way = waiting.shift(); way; way = waiting.shift()) {
    const file = files.get(/** @type {string} */ (way.at(-1)));
    for (const { specifier, kind } of file?.imports ?? []) {
      if (kind !== "static") continue;
      const target = resolveImport(workspace, /** @type {string} */ (way.at(-1)), specifier);
      if (target.builtin && !found.has(target.builtin)) found.set(target.builtin, way);
      if (!target.file || seen.has(target.file)) continue;
      seen.add(target.file);
      waiting.push([...way, target.file]);
    }
  }
  return [...found].map(([builtin, way]) => ({ builtin, way }));
}
