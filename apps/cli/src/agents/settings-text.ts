// Inserts values into settings files of other programs and removes them. All other bytes stay the same.

import { isDeepStrictEqual } from "node:util";
import { isRecord } from "@espalier/session-tree";
import {
  createScanner,
  getNodeValue,
  type Node,
  type ParseError,
  parseTree,
  printParseErrorCode,
} from "jsonc-parser";
import { parse as parseToml } from "smol-toml";
import { CommandError } from "../failure.ts";

/** A value of ours in a settings file. */
export interface OwnValue {
  /** Keys from the root to the value; for an element, to its list. */
  path: readonly string[];
  value: unknown;
  /** True: the value is an element of the list at `path`. */
  isElement?: boolean;
  /** Returns whether an existing value was written by an installation of ours, including older versions. */
  isOurs(value: unknown): boolean;
}

/** Record of an insertion, with which it is removed. */
export interface Insertion {
  /** Inserted texts in the order of their insertion, each with its offset at that time. */
  pieces: { at: number; piece: string }[];
  /** Paths of the objects and lists that were created for our values. */
  made: string[][];
}

/** Record for a missing insertion: values are removed by their keys. */
export const NO_INSERTION: Insertion = { pieces: [], made: [] };

/** Format of a settings file. */
export interface SettingsForm {
  /**
   * Inserts values; a value that the file already has is skipped.
   * @throws CommandError `settings` for a file that cannot be parsed, that has another value at the path of a value, or
   * whose content does not fit the path
   */
  insert(text: string, values: readonly OwnValue[]): Insertion & { text: string };
  /**
   * Removes our values: the inserted texts if they are unchanged, else the values by their keys.
   * @throws CommandError `settings` for a file that cannot be parsed; in TOML, also for values that cannot be removed
   * without a change of other parts
   */
  remove(text: string, values: readonly OwnValue[], insertion: Insertion): string;
  /** Returns the value at a path; undefined without one. @throws CommandError `settings` if it cannot be parsed */
  read(text: string, path: readonly string[]): unknown;
}

const brokenFile = (reason: string): CommandError => new CommandError("settings", reason);

/** Removes the inserted texts, the last one first; undefined unless each is at its offset, or occurs exactly once. */
function withoutPieces(text: string, pieces: Insertion["pieces"]): string | undefined {
  let rest = text;
  for (const { at, piece } of pieces.toReversed()) {
    const found = rest.startsWith(piece, at) ? at : rest.indexOf(piece);
    if (found < 0 || (found !== at && rest.indexOf(piece, found + 1) >= 0)) return undefined;
    rest = rest.slice(0, found) + rest.slice(found + piece.length);
  }
  return rest;
}

const eolOf = (text: string): string => (text.includes("\r\n") ? "\r\n" : "\n");

/** JSON; comments, a byte order mark and trailing commas are allowed. */
export const jsonSettings: SettingsForm = {
  insert(text, values) {
    const result: Insertion & { text: string } = { text, pieces: [], made: [] };
    for (const own of values) {
      const edit = insertionOf(result.text, own);
      if (edit === undefined) continue;
      const { at, piece, made } = edit;
      result.text = result.text.slice(0, at) + piece + result.text.slice(at);
      result.pieces.push({ at, piece });
      result.made.push(...made);
    }
    return result;
  },
  remove(text, values, { pieces, made }) {
    if (isBlank(text)) return text;
    const byKey = withoutEmpty(withoutValues(text, values), made);
    const cut = withoutPieces(text, pieces);
    if (cut === undefined) return byKey;
    // A trailing comma is allowed only if the file had one.
    const isWhole = isBlank(cut) || isSound(cut, !isSound(text, false));
    return isWhole && isDeepStrictEqual(valueIn(cut), valueIn(byKey)) ? cut : byKey;
  },
  read: (text, path) => path.reduce<unknown>(fieldOf, valueIn(text)),
};

export const fieldOf = (value: unknown, key: string): unknown => (isRecord(value) ? value[key] : undefined);

const BOM = "\uFEFF";
const isBlank = (text: string): boolean => text.replace(BOM, "").trim() === "";

/** Replaces a byte order mark with a space, so that offsets stay the same. */
const unmarked = (text: string): string => (text.startsWith(BOM) ? ` ${text.slice(1)}` : text);

function parsed(text: string, allowTrailingComma: boolean): { tree: Node | undefined; errors: ParseError[] } {
  const errors: ParseError[] = [];
  return { tree: parseTree(unmarked(text), errors, { allowTrailingComma }), errors };
}

const isSound = (text: string, allowTrailingComma: boolean): boolean =>
  parsed(text, allowTrailingComma).errors.length === 0;

function treeOf(text: string): Node {
  const { tree, errors } = parsed(text, true);
  const [error] = errors;
  if (error) {
    const line = text.slice(0, error.offset).split("\n").length;
    throw brokenFile(`it is not JSON (line ${line}: ${printParseErrorCode(error.error)})`);
  }
  if (tree?.type !== "object") throw brokenFile("it is not a JSON object");
  return tree;
}

/** Returns the value of a node as plain objects; the parser's objects have no prototype. */
const valueAt = (node: Node): unknown => JSON.parse(JSON.stringify(getNodeValue(node)));

const valueIn = (text: string): unknown => (isBlank(text) ? {} : valueAt(treeOf(text)));

/** Returns the last property of this name, since JSON parsers use the last one. */
const propertyOf = (object: Node, key: string): Node | undefined =>
  object.children?.findLast(({ children }) => children?.[0]?.value === key);

/**
 * Insertion of a value: its text, its offset, and the paths of new objects; undefined if the file already has it.
 * @throws CommandError `settings` if the file has another value there, or its content does not fit the path
 */
function insertionOf(text: string, own: OwnValue) {
  const eol = eolOf(text);
  const containers = own.isElement ? own.path : own.path.slice(0, -1);
  const madeFrom = (depth: number) =>
    containers.slice(depth).map((_, at) => own.path.slice(0, depth + at + 1));
  if (isBlank(text)) {
    const piece = `${JSON.stringify(nested(own.path, own), null, 2).replaceAll("\n", eol)}${eol}`;
    return { at: text.length, piece, made: madeFrom(0) };
  }
  const layout = layoutOf(text);
  let parent = treeOf(text);
  for (const [depth, key] of own.path.entries()) {
    const where = own.path.slice(0, depth + 1).join(".");
    const found = propertyOf(parent, key)?.children?.[1];
    const rest = own.path.slice(depth + 1);
    if (found === undefined) {
      const piece = layout(parent, nested(rest, own), key);
      return { at: placeIn(parent), piece, made: madeFrom(depth) };
    }
    if (rest.length > 0) {
      if (found.type !== "object") throw brokenFile(`its ${where} is not an object`);
      parent = found;
    } else if (own.isElement) {
      if (found.type !== "array") throw brokenFile(`its ${where} is not a list`);
      const isThere = (valueAt(found) as unknown[]).some((value) => isDeepStrictEqual(value, own.value));
      return isThere ? undefined : { at: placeIn(found), piece: layout(found, own.value), made: [] };
    } else if (!isDeepStrictEqual(valueAt(found), own.value))
      throw brokenFile(`it has a ${where} that is not Espalier's`);
  }
  return undefined;
}

/** Wraps a value in objects for the missing keys of its path. */
const nested = (path: readonly string[], { value, isElement }: OwnValue): unknown =>
  path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), isElement ? [value] : value);

/** Returns a function that writes a new child in the layout of a file: on one line, or on lines with an indentation. */
function layoutOf(text: string) {
  const eol = eolOf(text);
  const indentAt = (offset: number): string | undefined => {
    const line = text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset).replace(BOM, "");
    return line.trim() === "" && offset > 0 && text.lastIndexOf("\n", offset - 1) >= 0 ? line : undefined;
  };
  const lineIndent = (offset: number): string =>
    /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", offset - 1) + 1).replace(BOM, ""))![0];
  const root = treeOf(text);
  const first = root.children?.[0];
  const unit = (first && indentAt(first.offset)) || "  ";
  const isOneLine = (container: Node): boolean => {
    const child = container.children?.[0] ?? (container === root ? undefined : first);
    return child !== undefined && indentAt(child.offset) === undefined;
  };
  return (container: Node, value: unknown, key?: string): string => {
    const label = key === undefined ? "" : `${JSON.stringify(key)}: `;
    const last = container.children?.at(-1);
    if (isOneLine(container)) return `${last ? ", " : ""}${label}${JSON.stringify(value)}`;
    const base = lineIndent(container.offset);
    const indent = (last && indentAt(last.offset)) ?? base + unit;
    const lines = `${label}${JSON.stringify(value, null, unit)}`.replaceAll("\n", eol + indent);
    if (last) return `,${eol}${indent}${lines}`;
    const inside = text.slice(container.offset + 1, container.offset + container.length - 1);
    return `${eol}${indent}${lines}${inside.includes("\n") ? "" : eol + base}`;
  };
}

/** Returns the offset for a new child: after the last child, or after the opening bracket. */
function placeIn(container: Node): number {
  const last = container.children?.at(-1);
  return last ? last.offset + last.length : container.offset + 1;
}

/** Removes our values by their keys. Objects and lists that become empty stay. */
function withoutValues(text: string, values: readonly OwnValue[]): string {
  let rest = text;
  for (const own of values)
    for (let found = nodeOf(rest, own); found; found = nodeOf(rest, own)) rest = withoutNode(rest, found);
  return rest;
}

/** Finds the property or element with our value; undefined if there is none. */
function nodeOf(text: string, { path, isElement, isOurs }: OwnValue): Node | undefined {
  let property: Node | undefined;
  let value: Node | undefined = treeOf(text);
  for (const key of path) {
    property = value?.type === "object" ? propertyOf(value, key) : undefined;
    value = property?.children?.[1];
  }
  if (!isElement) return value && isOurs(valueAt(value)) ? property : undefined;
  return value?.type === "array" ? value.children?.find((element) => isOurs(valueAt(element))) : undefined;
}

/** Removes a property or an element with one comma and the white space before it; comments stay. */
function withoutNode(text: string, node: Node): string {
  const siblings = node.parent?.children ?? [];
  const before = siblings[siblings.indexOf(node) - 1];
  const end = node.offset + node.length;
  const comma = commaBehind(text, end) ?? (before && commaBehind(text, before.offset + before.length));
  const white = /(?:\r?\n)?[ \t]*$/.exec(text.slice(0, node.offset))![0];
  const start = node.offset - white.length;
  const cuts = [[start, end] as const, ...(comma === undefined ? [] : [[comma, comma + 1] as const])];
  return cuts
    .sort(([a], [b]) => b - a)
    .reduce((rest, [from, to]) => rest.slice(0, from) + rest.slice(to), text);
}

/** Offset of the comma after white space and comments; undefined if no comma follows. */
function commaBehind(text: string, offset: number): number | undefined {
  const scanner = createScanner(text, true);
  scanner.setPosition(offset);
  scanner.scan();
  const at = scanner.getTokenOffset();
  return text[at] === "," ? at : undefined;
}

/** Removes objects and lists that were created for our values and are now empty. */
function withoutEmpty(text: string, made: readonly (readonly string[])[]): string {
  const isOurs = (value: unknown) =>
    typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return [...made]
    .sort((a, b) => b.length - a.length)
    .reduce((rest, path) => {
      const node = nodeOf(rest, { path, value: undefined, isOurs });
      return node ? withoutNode(rest, node) : rest;
    }, text);
}

/** TOML. Our values are separate tables at the end; their fields are strings and lists of strings. */
export const tomlSettings: SettingsForm = {
  insert(text, values) {
    const result: Insertion & { text: string } = { text, pieces: [], made: [] };
    const eol = eolOf(text);
    for (const { path, value } of values) {
      const before = tableIn(result.text);
      const there = path.reduce<unknown>(fieldOf, before);
      if (isDeepStrictEqual(plain(there), value)) continue;
      if (there !== undefined) throw brokenFile(`it has a ${path.join(".")} that is not Espalier's`);
      const fields = Object.entries(value as object).map(
        ([key, field]) => `${key} = ${JSON.stringify(field)}`,
      );
      const gap = result.text === "" || result.text === BOM ? "" : /\n$/.test(result.text) ? eol : eol + eol;
      const piece = gap + [`[${path.join(".")}]`, ...fields, ""].join(eol);
      const text = result.text + piece;
      const isSound = parsesTo(text, withField(before, path, value));
      if (!isSound) throw brokenFile(`a table [${path.join(".")}] cannot be added at its end`);
      result.pieces.push({ at: result.text.length, piece });
      result.text = text;
    }
    return result;
  },
  remove(text, values, { pieces }) {
    const ours = values.filter(({ path, isOurs }) => isOurs(path.reduce<unknown>(fieldOf, tableIn(text))));
    const wanted = ours.reduce((table, { path }) => withoutField(table, path), tableIn(text));
    const cut = withoutPieces(text, pieces);
    if (cut !== undefined && parsesTo(cut, wanted)) return cut;
    const rest = ours.reduce((each, { path }) => withoutTables(each, path.join(".")), text);
    if (parsesTo(rest, wanted)) return rest;
    throw brokenFile(
      `Espalier's part cannot be removed without changing other parts; remove ${ours.map(({ path }) => path.join(".")).join(" and ")} by hand`,
    );
  },
  read: (text, path) => path.reduce<unknown>(fieldOf, tableIn(text)),
};

type Table = Record<string, unknown>;

function tableIn(text: string): Table {
  try {
    return parseToml(text.replace(BOM, ""), { integersAsBigInt: "asNeeded" });
  } catch (error) {
    const line = (error as { line?: unknown }).line;
    throw brokenFile(`it is not TOML${typeof line === "number" ? ` (line ${line})` : ""}`);
  }
}

/** Returns whether a text parses to a table; empty tables are ignored. */
function parsesTo(text: string, wanted: Table): boolean {
  try {
    return isDeepStrictEqual(plain(tableIn(text)), plain(wanted));
  } catch (error) {
    if (error instanceof CommandError) return false;
    throw error;
  }
}

/** Copies a table without prototypes and without empty tables. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null || value instanceof Date) return value;
  const fields = Object.entries(value).map(([key, field]) => [key, plain(field)] as const);
  return Object.fromEntries(fields.filter(([, field]) => !isDeepStrictEqual(field, {})));
}

function withField(table: Table, [key = "", ...rest]: readonly string[], value: unknown): Table {
  const inner = rest.length === 0 ? value : withField((table[key] ?? {}) as Table, rest, value);
  return { ...table, [key]: inner };
}

function withoutField(table: Table, [key = "", ...rest]: readonly string[]): Table {
  const { [key]: inner, ...others } = table;
  if (rest.length === 0 || typeof inner !== "object" || inner === null) return others;
  return { ...others, [key]: withoutField(inner as Table, rest) };
}

/** Removes the lines of a table and its subtables, up to the last line with a key. */
function withoutTables(text: string, name: string): string {
  const lines = text.split(/(?<=\n)/);
  const kept: string[] = [];
  let isInside = false;
  /** Blank lines and comments, which belong to the table only if a key follows them. */
  let pending: string[] = [];
  for (const line of lines) {
    const header = /^\s*\[+\s*([^\]]+?)\s*\]/.exec(line)?.[1]?.replaceAll(/["'\s]/g, "");
    if (header !== undefined) {
      if (isInside) kept.push(...pending);
      pending = [];
      isInside = header === name || header.startsWith(`${name}.`);
      if (isInside) continue;
    }
    if (!isInside) kept.push(line);
    else if (/^\s*(#|$)/.test(line)) pending.push(line);
    else pending = [];
  }
  return [...kept, ...pending].join("");
}
