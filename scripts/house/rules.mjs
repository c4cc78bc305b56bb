// Rules of the repository, each a pure function of the workspace. The linter checks import cycles, undeclared
// dependencies and `export *`: see biome.json.
import { packageName, readWorkspace, resolveImport, sourceEntries } from "./workspace.mjs";

/** @typedef {import("./workspace.mjs").Workspace} Workspace */
/** @typedef {import("./workspace.mjs").Package} Package */
/** @typedef {import("./workspace.mjs").SourceFile} SourceFile */

/** @returns {string[]} one sentence per violation in the workspace of a folder */
export function checkHouse(/** @type {string} */ root) {
  const workspace = readWorkspace(root);
  const rules = [checkRows, checkBrowser, checkFiles, checkFigures];
  return rules.flatMap((rule) => rule(workspace));
}

/** Rows from the ground up; each row imports only from the rows below it. */
const rows = [
  ["packages/jsonl-stream"],
  ["packages/session-tree"],
  ["packages/summarizer", "packages/extensions"],
  ["packages/compaction", "packages/branch-summary", "packages/interop", "packages/store-postgres"],
  ["packages/engine"],
  ["packages/agent"],
  // The package for users: doors, and adapters for other frameworks.
  ["packages/espalier"],
  // docs/decisions/0009: the command carries the viewer.
  ["apps/viewer"],
  ["apps/cli"],
  ["examples", "harness", "bench", "docs"],
];

/** Packages that import no other package of the workspace, so that hooks do not depend on sessions. */
const standsAlone = new Set(["packages/extensions"]);

function checkRows(/** @type {Workspace} */ workspace) {
  return workspace.packages.flatMap((owner) => {
    if (rowOf(owner.folder) < 0) {
      return [`${owner.folder} has no row: add it to \`rows\` in scripts/house/rules.mjs.`];
    }
    const imports = owner.files.flatMap((file) => file.imports.map((entry) => ({ file, ...entry })));
    return imports.flatMap(({ file, specifier, line }) => {
      const target = resolveImport(workspace, file.path, specifier);
      const at = `${file.path}:${line}`;
      if (specifier.startsWith(".")) {
        if (target.owner === owner || !target.file) return [];
        const to = target.owner?.name ?? target.file;
        return [`${at} imports "${specifier}" from outside of its package: import ${to} by its public name.`];
      }
      if (!target.owner || target.owner === owner) return [];
      if (!target.file)
        return [`${at} imports "${specifier}", which ${target.owner.folder} does not export.`];
      const reason = whyForbidden(owner.folder, target.owner.folder);
      return reason ? [`${at} imports "${packageName(specifier)}", but ${reason}.`] : [];
    });
  });
}

function whyForbidden(/** @type {string} */ from, /** @type {string} */ to) {
  if (standsAlone.has(from)) return `${from} imports no other package of the workspace`;
  if (rowOf(to) > rowOf(from)) return `${to} is above ${from}: imports go down the house`;
  if (rowOf(to) === rowOf(from))
    return `${to} is in the same row, and packages of one row do not import each other`;
  return undefined;
}

function rowOf(/** @type {string} */ folder) {
  return rows.findIndex((row) => row.includes(folder));
}

const vague = /^(utils?|types?|helpers?|common|misc)$/;
const kebabCase = /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)*$/;

/**
 * The limits, in the root manifest under `house`. A number there only goes down, but for a door that grows on purpose.
 * @typedef {object} Limits
 * @property {number} lines of a source file
 * @property {number} testLines of a test, which is a list of sentences
 * @property {number} filesInFolder source files side by side, doors not counted
 * @property {number} oneImporter share of the source files that one other file imports
 * @property {number} openers share of the doc comments that begin with a question word
 * @property {number} names of all doors together, adapters apart
 * @property {Record<string, number>} doors names of each door of `espalier`
 */
const limitsOf = ({ rootManifest }) => /** @type {Limits} */ (rootManifest.house);

const isTest = (/** @type {string} */ path) => /\/test\/|\.test\./.test(path);
const isDoor = (/** @type {string} */ path) => /\/src\/(.*\/)?index\.tsx?$/.test(path);

function checkFiles(/** @type {Workspace} */ workspace) {
  const limits = limitsOf(workspace);
  const files = [...workspace.packages.flatMap((owner) => owner.files), ...workspace.scripts];
  const doors = new Set(
    workspace.packages.flatMap((owner) => Object.values(sourceEntries(owner)).map(String)),
  );
  return [
    ...files.flatMap((file) => [
      ...file.errors.map((error) => `${file.path} cannot be parsed: ${error}.`),
      ...checkLength(file, isTest(file.path) ? limits.testLines : limits.lines),
      ...checkNames(file.path),
      ...checkDoor(file, doors),
    ]),
    ...checkFolders(files, limits),
  ];
}

function checkLength(/** @type {SourceFile} */ { path, lineCount }, /** @type {number} */ limit) {
  if (lineCount <= limit) return [];
  return [
    `${path} has ${lineCount} lines, ${limit} at most: move a noun with its helpers into a file of its own.`,
  ];
}

function checkFolders(/** @type {SourceFile[]} */ files, /** @type {Limits} */ { filesInFolder }) {
  /** @type {Map<string, number>} */
  const sizes = new Map();
  for (const { path } of files) {
    if (isTest(path) || isDoor(path)) continue;
    const folder = path.slice(0, path.lastIndexOf("/"));
    sizes.set(folder, (sizes.get(folder) ?? 0) + 1);
  }
  return [...sizes]
    .filter(([, size]) => size > filesInFolder)
    .map(
      ([folder, size]) =>
        `${folder} has ${size} files, ${filesInFolder} at most: divide them into subfolders.`,
    );
}

function checkNames(/** @type {string} */ path) {
  const names = path.split("/").map((part) => part.replace(/\.(ts|tsx|mjs)$/, ""));
  return names.flatMap((name) => {
    const stem = name.replace(/\.test$/, "");
    if (vague.test(stem))
      return [`${path} is named "${name}", which is too general: name it after its main noun.`];
    if (!kebabCase.test(name)) return [`${path} is named "${name}": files and folders are kebab-case.`];
    return [];
  });
}

function checkDoor(/** @type {SourceFile} */ { path, listsNamesOnly }, /** @type {Set<string>} */ doors) {
  if (!isDoor(path)) return [];
  if (!doors.has(path))
    return [`${path} is not a door of its package: import the files themselves, or add it to "exports".`];
  if (listsNamesOnly) return [];
  return [`${path} is a table of contents: it may contain only \`export { … } from "…"\`.`];
}

/**
 * Source files of the packages and apps, and those of them that one other file imports, each with that file.
 */
function roomsOf(/** @type {Workspace} */ workspace) {
  const sources = workspace.packages
    .filter(({ folder }) => /^(packages|apps)\//.test(folder))
    .flatMap(({ files }) => files.filter(({ path }) => path.includes("/src/") && !isTest(path)));
  const rooms = sources.filter(({ path }) => !isDoor(path) && !path.includes("/testing/"));
  const importers = importersOf(workspace, sources);
  const alone = rooms.flatMap(({ path, firstLine }) => {
    const [importer = "", ...others] = importers.get(path) ?? [];
    return importer === "" || others.length > 0 ? [] : [{ path, firstLine, importer }];
  });
  return { sources, rooms, alone };
}

/** @returns {string[]} each source file that one other file imports: `path <- importer` */
export const listSingles = (/** @type {string} */ root) =>
  roomsOf(readWorkspace(root)).alone.map(({ path, importer }) => `${path} <- ${importer}`);

const QUESTION_WORD = /^(what|how|where|whether|who|whom|whose|why|when|which)\b/i;

/**
 * Figures of the packages and apps as a whole: shares that have a limit, and the sizes of the doors for users.
 * @returns {string[]}
 */
function checkFigures(/** @type {Workspace} */ workspace) {
  const limits = limitsOf(workspace);
  const { sources, rooms, alone } = roomsOf(workspace);
  const paths = alone.map(({ path }) => path);
  const comments = sources.flatMap(({ docComments }) => docComments);
  const questions = comments.filter((line) => QUESTION_WORD.test(line));
  return [
    ...checkShare("source files have one importer", paths, rooms.length, limits.oneImporter),
    ...alone.flatMap(checkReason),
    ...checkShare("doc comments begin with a question word", questions, comments.length, limits.openers),
    ...checkDoors(workspace, limits),
  ];
}

/** A file with one importer belongs to that importer, or its first line gives the reason why not. */
function checkReason(/** @type {{ path: string, firstLine: string, importer: string }} */ file) {
  const reason = `// Separate from ${file.importer.slice(file.importer.lastIndexOf("/") + 1)}: `;
  if (file.firstLine.startsWith(reason)) return [];
  return [`${file.path} has one importer, ${file.importer}: move it there, or begin it with "${reason}…".`];
}

function checkShare(
  /** @type {string} */ what,
  /** @type {string[]} */ found,
  /** @type {number} */ total,
  /** @type {number} */ limit,
) {
  if (found.length <= limit * total) return [];
  const percent = (/** @type {number} */ share) => `${(share * 100).toFixed(1)} %`;
  const first = found.slice(0, 5).join(", ");
  return [
    `${found.length} of ${total} ${what} (${percent(found.length / total)}, ${percent(limit)} at most): ${first} …`,
  ];
}

/**
 * Files that import each file of their package, doors apart. An import of types counts only where no file imports more.
 * @returns {Map<string, Set<string>>}
 */
function importersOf(/** @type {Workspace} */ workspace, /** @type {SourceFile[]} */ sources) {
  /** @type {Map<string, Set<string>>} */
  const importers = new Map();
  for (const isType of [false, true]) {
    const known = new Set(importers.keys());
    for (const { path, imports } of sources.filter((file) => !isDoor(file.path)))
      for (const { specifier, kind } of imports) {
        const { file } = resolveImport(workspace, path, specifier);
        if (!specifier.startsWith(".") || !file || isType !== (kind === "type") || known.has(file)) continue;
        importers.set(file, (importers.get(file) ?? new Set()).add(path));
      }
  }
  return importers;
}

/**
 * Names of the doors of the package for users. One that is not in the limits has grown by its first name. Adapters have
 * limits of their own and are not in the sum: a user has one host, and reads one of them.
 */
function checkDoors(/** @type {Workspace} */ workspace, /** @type {Limits} */ limits) {
  const owner = workspace.packages.find(({ folder }) => folder === "packages/espalier");
  if (!owner) return [];
  const sizes = Object.entries(sourceEntries(owner)).map(([door, path]) => {
    const file = owner.files.find((each) => each.path === path);
    return { door, path, size: new Set(file?.names).size, limit: limits.doors[door] ?? 0 };
  });
  const sum = sizes
    .filter(({ door }) => !door.startsWith("./adapters/"))
    .reduce((total, { size }) => total + size, 0);
  return [
    ...sizes
      .filter(({ size, limit }) => size > limit)
      .map(
        ({ door, path, size, limit }) =>
          `${path} exports ${size} names, ${limit} at most: raise house.doors["${door}"] in package.json on purpose.`,
      ),
    ...(sum > limits.names ? [`The doors of espalier export ${sum} names, ${limits.names} at most.`] : []),
  ];
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
function checkBrowser(/** @type {Workspace} */ workspace) {
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
  /** @type {Workspace} */ workspace,
  /** @type {Map<string, SourceFile>} */ files,
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
