import {
  CHARS_PER_TOKEN,
  type ContextMessage,
  isFailedAnswer,
  isRecord,
  type ToolCallBlock,
  toolCalls,
} from "@espalier/session-tree";
import { escapeAttribute, unescapeText } from "./transcript.ts";

/**
 * Adds the file operations of the calls in `messages` to `into`, according to the tools' declarations, and returns
 * `into`. Calls of failed answers, which were never run, and calls with an error as result, which changed nothing, are
 * left out. Lists in summaries among the messages are added too, so that the lists are cumulative.
 */
export function collectFileOps(
  messages: readonly ContextMessage[],
  tools: readonly FileTool[] = fileTools,
  into: FileOps = newFileOps(),
): FileOps {
  const failed = new Set<string>();
  for (const message of messages) {
    if (message.role === "toolResult" && message.isError === true) failed.add(message.toolCallId);
  }
  for (const message of messages) {
    if (message.role === "compactionSummary" || message.role === "branchSummary")
      addListed(into, parseFileLists(message.summary ?? ""));
    if (isFailedAnswer(message)) continue;
    for (const call of toolCalls(message)) {
      if (failed.has(call.id)) continue;
      for (const { name, arguments: given } of callsWithin(call)) {
        if (typeof name !== "string") continue;
        addTouched(into, findFileTool(tools, name)?.files(recordOf(given)) ?? {});
      }
    }
  }
  return into;
}

function addTouched(into: FileOps, touched: TouchedFiles): void {
  for (const kind of ["read", "written", "edited"] as const)
    for (const path of touched[kind] ?? []) into[kind].add(path);
}

const addListed = (into: FileOps, { readFiles, modifiedFiles }: Record<keyof FileLists, unknown>) =>
  addTouched(into, { read: texts(readFiles), edited: texts(modifiedFiles) });

/** Returns arguments as an object; some agents write them as JSON text, or as the only text of a tool. */
function recordOf(value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  return typeof value === "string" ? { input: value } : {};
}

/** Files that a span touched. A file can be in several sets. */
export interface FileOps {
  read: Set<string>;
  written: Set<string>;
  edited: Set<string>;
}

/** Returns empty sets. */
export const newFileOps = (): FileOps => ({ read: new Set(), written: new Set(), edited: new Set() });

/** Lists at the end of a summary, sorted. A modified file is not among the read ones. */
export interface FileLists {
  readFiles: string[];
  modifiedFiles: string[];
}

/** Returns the sorted lists of read and modified files; a modified file is only in the second. */
export function fileLists(fileOps: FileOps): FileLists {
  const modified = new Set([...fileOps.written, ...fileOps.edited]);
  const read = [...fileOps.read].filter((path) => !modified.has(path));
  return { readFiles: read.sort(), modifiedFiles: [...modified].sort() };
}

const READ_TAG = "read-files";
const MODIFIED_TAG = "modified-files";

/**
 * Formats the lists as blocks of a summary, one path per line, `<read-files>` before `<modified-files>`; an empty list
 * has no block. Both together have at most `limitTokens` (characters / 4): beyond it, a line with the number of omitted
 * paths replaces the middle of a list, first in the files that were only read.
 */
export function formatFileLists(lists: FileLists, limitTokens = Number.POSITIVE_INFINITY): string {
  const limit =
    limitTokens * CHARS_PER_TOKEN - (lists.readFiles.length && lists.modifiedFiles.length ? 2 : 0);
  const wholeRead = block(READ_TAG, lists.readFiles, Number.POSITIVE_INFINITY);
  const modified = block(
    MODIFIED_TAG,
    lists.modifiedFiles,
    Math.max(limit - wholeRead.length, (limit * 3) / 4),
  );
  const read = block(READ_TAG, lists.readFiles, limit - modified.length);
  return [read, modified].filter((text) => text !== "").join("\n\n");
}

/**
 * Returns the lists in a summary; of several blocks of one kind the last one. Lines about omitted paths are skipped.
 */
export function parseFileLists(summary: string): FileLists {
  return { readFiles: parseBlock(summary, READ_TAG), modifiedFiles: parseBlock(summary, MODIFIED_TAG) };
}

function block(tag: string, paths: readonly string[], limit: number): string {
  if (paths.length === 0) return "";
  const lines = paths.map(escapeAttribute);
  const room = limit - `<${tag}>\n\n</${tag}>`.length;
  const total = lines.reduce((sum, line) => sum + line.length + 1, -1);
  const shown = total <= room ? lines : middleOut(lines, room);
  return shown.length === 0 ? "" : `<${tag}>\n${shown.join("\n")}\n</${tag}>`;
}

/**
 * Returns the first and the last lines that fit, alternately, around a line with the number of the others; empty when
 * not even that line fits.
 */
function middleOut(lines: readonly string[], room: number): string[] {
  let left = room - leftOutLine(lines.length).length;
  if (left < 0) return [];
  const head: string[] = [];
  const tail: string[] = [];
  for (let taken = 0; taken < lines.length; taken++) {
    const isHead = taken % 2 === 0;
    const line = isHead ? lines[head.length]! : lines[lines.length - 1 - tail.length]!;
    left -= line.length + 1;
    if (left < 0) break;
    if (isHead) head.push(line);
    else tail.unshift(line);
  }
  return [...head, leftOutLine(lines.length - head.length - tail.length), ...tail];
}

const leftOutLine = (count: number) => `[… ${count} paths left out]`;
const LEFT_OUT = /^\[… \d+ paths left out\]$/;

function parseBlock(summary: string, tag: string): string[] {
  const start = summary.lastIndexOf(`<${tag}>`);
  const end = start < 0 ? -1 : summary.indexOf(`</${tag}>`, start);
  if (end < 0) return [];
  const lines = summary.slice(start + tag.length + 2, end).split("\n");
  return lines
    .map((line) => line.replace(/\r$/, ""))
    .filter((line) => line.trim() !== "" && !LEFT_OUT.test(line))
    .map(unescapeText);
}

/**
 * Adds the files of a summary: those listed in its text, and those that its author (an extension, Pi) recorded in
 * `details.readFiles` and `details.modifiedFiles`. Returns `into`.
 */
export function recordedFiles(
  entry: { summary: string; details?: unknown } | undefined,
  into: FileOps = newFileOps(),
): FileOps {
  addListed(into, parseFileLists(entry?.summary ?? ""));
  addListed(into, (entry?.details ?? {}) as Record<keyof FileLists, unknown>);
  return into;
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];

// Linear in a long line: no part of a pattern can give back what another part takes.
const HEADER = /^[ \t]*\*\*\* (Add|Update|Delete) File:[ \t]+(\S.*)$/gm;
const MOVE = /^[ \t]*\*\*\* Move to:[ \t]+(\S.*)$/gm;
const DIFF_FILES = /^--- (?:a\/)?([^\t\r\n]+)(?:\t.*)?\r?\n\+\+\+ (?:b\/)?([^\t\r\n]+)/gm;

/** Returns the files that a patch touches: in the form with `*** Update File:` headers, or a unified diff. */
export function patchedFiles(patch: string): TouchedFiles {
  const written: string[] = [];
  const edited: string[] = [];
  for (const [, kind, path] of patch.matchAll(HEADER))
    (kind === "Add" ? written : edited).push(path!.trimEnd());
  for (const [, path] of patch.matchAll(MOVE)) written.push(path!.trimEnd());
  for (const [, before, after] of patch.matchAll(DIFF_FILES)) {
    if (before === "/dev/null") written.push(after!);
    else edited.push(after === "/dev/null" ? before! : after!);
  }
  return { written, edited };
}

type Arguments = Readonly<Record<string, unknown>>;

/** Names of arguments with the paths of several files. */
const LIST_FIELDS = ["paths", "files", "file_paths", "filePaths"];

/** Returns every path in the usual fields of arguments. */
function paths(args: Arguments): string[] {
  const lists = LIST_FIELDS.flatMap((field) => (Array.isArray(args[field]) ? args[field] : []));
  const values = [...PATH_FIELDS.map((field) => args[field]), ...lists.map(pathOf)];
  return texts(values).filter((path) => path !== "");
}

function pathOf(item: unknown): unknown {
  if (typeof item !== "object" || item === null) return item;
  return PATH_FIELDS.map((field) => (item as Arguments)[field]).find((value) => typeof value === "string");
}

const movedFiles = (args: Arguments): TouchedFiles => ({
  edited: texts(["source", "from", "old_path", "oldPath"].map((field) => args[field])),
  written: texts(["destination", "to", "new_path", "newPath"].map((field) => args[field])),
});

/** Returns the files of text editors with a single tool, whose `command` names the operation. */
function editorFiles(args: Arguments): TouchedFiles {
  const touched = paths(args);
  if (args["command"] === "view") return { read: touched };
  return args["command"] === "create" ? { written: touched } : { edited: touched };
}

/** Returns the files of a patch, in a separate field or in a command line that applies it. */
function patchFiles(args: Arguments): TouchedFiles {
  const fields = ["input", "patch", "patchText", "diff", "arguments", "command", "cmd"];
  const found = patchedFiles(texts(fields.flatMap((field) => args[field])).join("\n"));
  return found.written?.length || found.edited?.length ? found : { edited: paths(args) };
}

/** Returns the files of a command: they are unknown, except those of a patch in the usual form. */
const commandFiles = ({ command, cmd }: Arguments) => patchFiles({ command: command ?? cmd });

const using =
  (files: FileTool["files"]) =>
  (name: string): FileTool => ({ name, files });
const reading = using((args) => ({ read: paths(args) }));
const writing = using((args) => ({ written: paths(args) }));
const editing = using((args) => ({ edited: paths(args) }));

/** Tools of common agents, by their names. To extend the list: `[...fileTools, myTool]`. */
export const fileTools: readonly FileTool[] = [
  ...["read", "read_file", "ReadFile", "read_many_files", "read_multiple_files", "read_text_file"].map(
    reading,
  ),
  ...["view", "view_file", "open_file", "NotebookRead", "view_image", "cat"].map(reading),
  ...["write", "write_file", "WriteFile", "create_file", "write_to_file", "save_file", "create"].map(writing),
  ...["edit", "edit_file", "EditFile", "MultiEdit", "multi_edit", "NotebookEdit", "replace"].map(editing),
  ...["str_replace", "replace_in_file", "search_replace", "insert", "apply_diff", "delete_file"].map(editing),
  ...["str_replace_based_edit_tool", "str_replace_editor"].map(using(editorFiles)),
  ...["apply_patch", "patch"].map(using(patchFiles)),
  ...["bash", "shell", "exec_command", "local_shell"].map(using(commandFiles)),
  ...["move_file", "rename_file"].map(using(movedFiles)),
];

/** Files of one call: paths as the call names them. */
export interface TouchedFiles {
  read?: string[];
  /** Files that were created, or replaced as a whole. */
  written?: string[];
  /** Files that were changed in part, moved or deleted. */
  edited?: string[];
}

/** File arguments declared by a tool. Tools without such a declaration touch no files. */
export interface FileTool {
  /** Name of the tool in calls, in any case. */
  name: string;
  /** Returns the files of a call. Arguments come from a model and can have any form: the function must not throw. */
  files(args: Readonly<Record<string, unknown>>): TouchedFiles;
}

/**
 * Returns the tool that a call names: in any case, and after the prefix of a tool server (`mcp__disk__read_file`). Of
 * several tools with one name, the last one is used, so that a longer list can override.
 */
function findFileTool(tools: readonly FileTool[], callName: string): FileTool | undefined {
  const wanted = callName.toLowerCase();
  return byName(tools, wanted) ?? byName(tools, wanted.slice(wanted.lastIndexOf("__") + 1).replace(/^_/, ""));
}

const byName = (tools: readonly FileTool[], wanted: string) =>
  tools.findLast(({ name }) => name.toLowerCase() === wanted);

/** Argument names of tool calls whose value is the path of one file. */
export const PATH_FIELDS = [
  "path",
  "file_path",
  "filePath",
  "filepath",
  "file",
  "filename",
  "file_name",
  "target_file",
  "targetFile",
  "absolute_path",
  "notebook_path",
  "relative_path",
  "uri",
] as const;

/** Name of the tool whose argument is a program, in any case. */
const CODE_TOOL = "exec";

const CODE_FIELDS = ["input", "code"];

/**
 * A call of a tool inside a program, up to its first argument: `await tools.exec_command(`, `tools["apply_patch"](`.
 */
const NESTED_CALL = /\btools\s*(?:\.\s*([A-Za-z_$][\w$]*)|\[\s*["'`]([^"'`\]]{1,100})["'`]\s*\])\s*\(\s*/g;

/** Assignment of a value to a name: `const patch = `. */
const NAMED_VALUE = /\b(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=\s*/g;

/** Maximum depth of nested values; a deeper program is not read further. */
const DEEPEST = 12;

/** Maximum number of calls read from one program. */
const MOST_CALLS = 200;

/**
 * Returns the calls inside a call. A call of `exec` with JavaScript has the calls of tools in the program (`await
 * tools.exec_command({"cmd": "make"})`), with their arguments if these are literals, or names of literals. No code is
 * run, and at most 200 calls are read. For any other call, and a program without calls, the result is the call itself.
 */
export function callsWithin(call: ToolCallBlock): readonly ToolCallBlock[] {
  const program = programOf(call);
  if (program === undefined) return [call];
  const values = new Map<string, unknown>();
  let readTo = 0;
  for (const match of program.matchAll(NAMED_VALUE)) {
    // No text is read twice: a value that is never closed reaches to the end of the program.
    if (match.index < readTo) continue;
    const { value, end } = readLiteral(program, match.index + match[0].length, values);
    readTo = end;
    if (value !== undefined) values.set(match[1]!, value);
  }
  const nested: ToolCallBlock[] = [];
  for (const match of program.matchAll(NESTED_CALL)) {
    const { value: given } = readLiteral(program, match.index + match[0].length, values);
    const input = isRecord(given) ? given : typeof given === "string" ? { input: given } : {};
    nested.push({ type: "toolCall", id: call.id, name: match[1] ?? match[2]!, arguments: input });
    if (nested.length === MOST_CALLS) break;
  }
  return nested.length === 0 ? [call] : nested;
}

function programOf({ name, arguments: given }: ToolCallBlock): string | undefined {
  if (typeof name !== "string" || name.toLowerCase() !== CODE_TOOL) return undefined;
  const texts: unknown[] = isRecord(given) ? CODE_FIELDS.map((field) => given[field]) : [given];
  return texts.find((text): text is string => typeof text === "string" && text.includes("tools"));
}

/** Characters of escapes in a text; an escaped line end is no part of the text. */
const ESCAPED: Readonly<Record<string, string>> = {
  n: "\n",
  t: "\t",
  r: "\r",
  b: "\b",
  f: "\f",
  v: "\v",
  0: "\0",
  "\n": "",
};
const ESCAPE = /\\(?:(u\{[\da-fA-F]{1,6}\}|u[\da-fA-F]{4}|x[\da-fA-F]{2})|([\s\S]?))/g;

function unescaped(_: string, hex: string | undefined, letter: string): string {
  if (hex === undefined) return ESCAPED[letter] ?? letter;
  const code = Number.parseInt(hex.replace(/[ux{}]/g, ""), 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}

/**
 * Reads the literal of JavaScript at a place; `value` is undefined for any other expression. `end` is the place after it.
 */
function readLiteral(code: string, start: number, values: ReadonlyMap<string, unknown>) {
  let at = start;
  const take = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const found = pattern.exec(code)?.[0] ?? "";
    at += found.length;
    return found;
  };

  function read(depth: number): unknown {
    take(/(?:\s|\/\/[^\n]*|\/\*[^*]*\*\/)*/y);
    if (/["'`]/.test(code.charAt(at))) return readText();
    if (depth >= DEEPEST) return undefined;
    if (code[at] === "{") return readObject(depth + 1);
    if (code[at] === "[") {
      const items: unknown[] = [];
      readItems("]", () => items.push(read(depth + 1)) > 0);
      return items;
    }
    const word = take(/String\.raw(?=`)|-?\d+(?:\.\d+)?|[A-Za-z_$][\w$]*/y);
    if (word === "String.raw") return readText(true);
    if (word === "" || word === "null") return undefined;
    if (/^-?\d/.test(word)) return Number(word);
    return word === "true" ? true : word === "false" ? false : values.get(word);
  }

  /** Reads a text; pieces joined by `+` become one text. Placeholders of a template are unchanged. */
  function readText(isRaw = false): string {
    const pieces: string[] = [];
    do {
      const quote = code[at];
      const isPlain = isRaw && pieces.length === 0;
      const from = ++at;
      while (at < code.length && code[at] !== quote) at += code[at] === "\\" && !isPlain ? 2 : 1;
      const text = code.slice(from, at++);
      pieces.push(isPlain ? text : text.replace(ESCAPE, unescaped));
    } while (take(/\s*\+\s*(?=["'`])/y) !== "");
    return pieces.join("");
  }

  function readObject(depth: number): Record<string, unknown> {
    const members: [string, unknown][] = [];
    readItems("}", () => {
      const name = /["']/.test(code.charAt(at)) ? readText() : take(/[A-Za-z_$][\w$]*|\d+/y);
      const isShort = take(/\s*:\s*/y) === "";
      if (name !== "") members.push([name, isShort ? values.get(name) : read(depth)]);
      return name !== "";
    });
    return Object.fromEntries(members);
  }

  /** Reads items up to `end`, or until one has no name. The rest of an item that is not a literal is skipped. */
  function readItems(end: "}" | "]", readItem: () => boolean): void {
    for (at++; ; ) {
      take(/[\s,]*/y);
      if (at >= code.length || code[at] === end || !readItem()) break;
      while (at < code.length && code[at] !== "," && code[at] !== end) at++;
    }
    at++;
  }

  return { value: read(0), end: at };
}
