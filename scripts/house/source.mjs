// One source file as data: what it imports, and whether its body does more than list names.
import { parseSync, Visitor } from "oxc-parser";

/**
 * @typedef {object} Import
 * @property {string} specifier
 * @property {"static" | "dynamic" | "type"} kind type imports vanish when the program runs
 * @property {number} line counted from 1
 */
/**
 * @typedef {object} SourceFile
 * @property {string} path from the root, with forward slashes
 * @property {string} firstLine
 * @property {number} lineCount
 * @property {Import[]} imports
 * @property {boolean} listsNamesOnly nothing but `export { … } from "…"`
 * @property {string[]} errors what the parser could not read
 */

/** @returns {SourceFile} */
export function readSource(/** @type {string} */ path, /** @type {string} */ text) {
  const { program, errors } = parseSync(path, text);
  /** @type {Import[]} */
  const imports = [];
  const add = (/** @type {any} */ source, /** @type {Import["kind"]} */ kind) => {
    // A computed specifier names no module that could be checked.
    if (typeof source?.value !== "string") return;
    imports.push({ specifier: source.value, kind, line: lineAt(text, source.start) });
  };
  new Visitor({
    ImportDeclaration: (node) => add(node.source, node.importKind === "type" ? "type" : "static"),
    ExportNamedDeclaration: (node) => add(node.source, node.exportKind === "type" ? "type" : "static"),
    ExportAllDeclaration: (node) => add(node.source, node.exportKind === "type" ? "type" : "static"),
    ImportExpression: (node) => add(node.source, "dynamic"),
    TSImportType: (node) => add(node.source, "type"),
  }).visit(program);
  return {
    path,
    firstLine: text.slice(0, text.indexOf("\n") + 1 || undefined).trim(),
    lineCount: text.split("\n").length - (text.endsWith("\n") ? 1 : 0),
    imports,
    listsNamesOnly: program.body.every(
      (node) => node.type === "ExportNamedDeclaration" && node.source !== null,
    ),
    errors: errors.map((error) => error.message),
  };
}

function lineAt(/** @type {string} */ text, /** @type {number} */ offset) {
  return text.slice(0, offset).split("\n").length;
}
