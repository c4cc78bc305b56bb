// The house: each row may import from the rows below it and from nothing else.
// No file may reach itself through its imports, types included: two files that need each other are one noun, or three.
// What a file may be called, how long it may be, and what an index may hold.
// Every package lists what it imports in its own package.json.
// Entries that a browser loads must not reach Node by a static import; a dynamic import or a type may.
import { packageName, resolveImport, sourceEntries } from "./workspace.mjs";

/** From the ground up. A folder that stands in no row is a violation: say here where it belongs. */
const rows = [
  ["packages/jsonl-stream"],
  ["packages/session-tree"],
  ["packages/summarizer", "packages/extensions"],
  ["packages/compaction", "packages/branch-summary", "packages/interop", "packages/store-postgres"],
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
      return [`${owner.folder} stands in no row of the house: give it one in scripts/house/rules.mjs.`];
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

/** Lines of a source file: a noun with everything that only it uses. Tests are lists of sentences and may be longer. */
const longest = 560;
const longestTest = 900;
const vague = /^(utils?|types?|helpers?|common|misc)$/;
const kebabCase = /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)*$/;

/** @returns {string[]} */
export function checkFiles(/** @type {import("./workspace.mjs").Workspace} */ workspace) {
  const inPackages = workspace.packages.flatMap((owner) => owner.files);
  return [...inPackages, ...workspace.scripts].flatMap((file) => [
    ...file.errors.map((error) => `${file.path} cannot be parsed: ${error}.`),
    ...checkLength(file),
    ...checkNames(file.path),
    ...checkIndex(file),
  ]);
}

function checkLength(/** @type {import("./workspace.mjs").SourceFile} */ { path, lineCount }) {
  const limit = /\/test\//.test(path) ? longestTest : longest;
  if (lineCount <= limit) return [];
  return [
    `${path} has ${lineCount} lines, ${limit} at most: move a noun with its helpers into a file of its own.`,
  ];
}

/** @returns {string[]} */
function checkNames(/** @type {string} */ path) {
  const names = path.split("/").map((part) => part.replace(/\.(ts|tsx|mjs)$/, ""));
  return names.flatMap((name) => {
    const stem = name.replace(/\.test$/, "");
    if (vague.test(stem))
      return [`${path} is named "${name}", which says nothing: name it after the noun it holds.`];
    if (!kebabCase.test(name)) return [`${path} is named "${name}": files and folders are kebab-case.`];
    return [];
  });
}

function checkIndex(/** @type {import("./workspace.mjs").SourceFile} */ { path, listsNamesOnly }) {
  if (!/\/src\/(.*\/)?index\.tsx?$/.test(path) || listsNamesOnly) return [];
  return [`${path} is a table of contents: it holds nothing but \`export { … } from "…"\`.`];
}

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

/** @type {Record<string, string>} by folder, the entry that a browser loads */
const browserSafe = {
  "packages/jsonl-stream": ".",
  "packages/session-tree": ".",
  "packages/summarizer": ".",
  "packages/extensions": ".",
  "packages/compaction": ".",
  "packages/branch-summary": ".",
  "packages/interop": ".",
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
  /** @type {Map<string, import("./workspace.mjs").SourceFile>} */ files,
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
