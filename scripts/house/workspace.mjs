// Reads the workspace once, as plain data, so that every rule is a pure function of this data.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join, posix } from "node:path";
import { parseSync, Visitor } from "oxc-parser";

/**
 * @typedef {object} Package
 * @property {string} name as npm knows it
 * @property {string} folder from the root, with forward slashes: `packages/engine`
 * @property {Record<string, any>} manifest its package.json
 * @property {SourceFile[]} files its sources and tests
 */
/** @typedef {{ rootManifest: Record<string, any>, packages: Package[], scripts: SourceFile[] }} Workspace */

const groups = ["packages", "apps"];
const single = ["examples", "harness", "bench", "docs"];
const skippedAnywhere = new Set(["node_modules", "dist", "fixtures", "coverage"]);

/** Folders of a package without sources. */
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

function readManifest(/** @type {string} */ file) {
  return JSON.parse(readFileSync(file, "utf8"));
}

function foldersIn(/** @type {string} */ root, /** @type {string} */ group) {
  if (!existsSync(join(root, group))) return [];
  const entries = readdirSync(join(root, group), { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => `${group}/${entry.name}`);
}

/** @returns {SourceFile[]} */
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

const builtins = new Set(builtinModules);

/** @typedef {{ file?: string, owner?: Package, builtin?: string }} Target */

/**
 * Target of an import: a file of the workspace, a module of Node, or a package from outside. A target without `file` does
 * not exist; the type check reports it.
 * @returns {Target}
 */
export function resolveImport(
  /** @type {Workspace} */ workspace,
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
  if (!owner) return {};
  const entry = sourceEntries(owner)[path === name ? "." : `./${path.slice(name.length + 1)}`];
  return entry ? { file: entry, owner } : { owner };
}

/** Returns the package of an import: `@scope/name/sub/path` → `@scope/name`. */
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
export function sourceEntries(/** @type {Package} */ { folder, manifest }) {
  const doors = Object.entries(manifest.exports ?? {});
  return Object.fromEntries(
    doors
      .filter(([, file]) => typeof file === "string")
      .map(([door, file]) => [door, posix.join(folder, file)]),
  );
}

/**
 * @typedef {object} Import
 * @property {string} specifier
 * @property {"static" | "dynamic" | "type"} kind type imports vanish when the program runs
 * @property {number} line counted from 1
 */
/**
 * @typedef {object} SourceFile
 * @property {string} path from the root, with forward slashes
 * @property {number} lineCount
 * @property {string} firstLine
 * @property {Import[]} imports
 * @property {boolean} listsNamesOnly nothing but `export { … } from "…"`
 * @property {string[]} names exported, listed or declared
 * @property {string[]} docComments first line of each
 * @property {string[]} errors of the parser
 */

const DOC_COMMENT = /\/\*\*\s*(?:\*\s*)?([^*@\s][^\n]*)/g;

/** @returns {SourceFile} */
function readSource(/** @type {string} */ path, /** @type {string} */ text) {
  const { program, errors } = parseSync(path, text);
  /** @type {Import[]} */
  const imports = [];
  const add = (/** @type {any} */ source, /** @type {Import["kind"]} */ kind) => {
    // A computed specifier cannot be checked.
    if (typeof source?.value !== "string") return;
    imports.push({ specifier: source.value, kind, line: lineAt(text, source.start) });
  };
  /** @type {string[]} */
  const names = [];
  const isType = (/** @type {{ importKind?: string | null, exportKind?: string | null }} */ part) =>
    part.importKind === "type" || part.exportKind === "type";
  /** Adds the names of an import or export; each of them may be a type. */
  const addNames = (/** @type {any} */ { source, specifiers, ...node }) =>
    add(source, isType(node) || (specifiers.length > 0 && specifiers.every(isType)) ? "type" : "static");
  new Visitor({
    ImportDeclaration: addNames,
    ExportNamedDeclaration(/** @type {any} */ node) {
      addNames(node);
      for (const { exported } of node.specifiers) names.push(exported.name ?? exported.value);
      names.push(...declaredNames(node.declaration));
    },
    ExportAllDeclaration: (node) => add(node.source, isType(node) ? "type" : "static"),
    ImportExpression: (node) => add(node.source, "dynamic"),
    TSImportType: (node) => add(node.source, "type"),
  }).visit(program);
  return {
    path,
    lineCount: text.split("\n").length - (text.endsWith("\n") ? 1 : 0),
    firstLine: text.slice(0, text.indexOf("\n")),
    imports,
    listsNamesOnly: program.body.every(
      (node) => node.type === "ExportNamedDeclaration" && node.source !== null,
    ),
    names,
    docComments: [...text.matchAll(DOC_COMMENT)].map(([, line = ""]) => line),
    errors: errors.map((error) => error.message),
  };
}

/** @returns {string[]} names of a declaration behind `export` */
function declaredNames(/** @type {any} */ declaration) {
  if (!declaration) return [];
  const declared = declaration.declarations ?? [declaration];
  return declared.map((/** @type {any} */ { id }) => id.name);
}

function lineAt(/** @type {string} */ text, /** @type {number} */ offset) {
  return text.slice(0, offset).split("\n").length;
}
