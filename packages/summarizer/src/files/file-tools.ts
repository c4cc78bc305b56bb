import type { FileTool, TouchedFiles } from "./file-tool.ts";
import { patchedFiles } from "./patched-files.ts";
import { PATH_FIELDS } from "./path-fields.ts";

type Arguments = Readonly<Record<string, unknown>>;

/** Names under which tools take the paths of several files. */
const LIST_FIELDS = ["paths", "files", "file_paths", "filePaths"];

/** Every path that the usual fields of arguments name. */
function paths(args: Arguments): string[] {
  const lists = LIST_FIELDS.flatMap((field) => (Array.isArray(args[field]) ? args[field] : []));
  const values = [...PATH_FIELDS.map((field) => args[field]), ...lists.map(pathOf)];
  return values.filter((value): value is string => typeof value === "string" && value !== "");
}

/** An item of a list: a path, or an object with one. */
function pathOf(item: unknown): unknown {
  if (typeof item !== "object" || item === null) return item;
  return PATH_FIELDS.map((field) => (item as Arguments)[field]).find((value) => typeof value === "string");
}

const moved = (args: Arguments): TouchedFiles => {
  const named = (fields: string[]) =>
    fields.map((field) => args[field]).filter((value): value is string => typeof value === "string");
  return {
    edited: named(["source", "from", "old_path", "oldPath"]),
    written: named(["destination", "to", "new_path", "newPath"]),
  };
};

/** Text editors with one tool for everything, told apart by `command`. */
function editorFiles(args: Arguments): TouchedFiles {
  const touched = paths(args);
  if (args["command"] === "view") return { read: touched };
  return args["command"] === "create" ? { written: touched } : { edited: touched };
}

/** A patch stands in a field of its own, or in a command line that applies it. */
function patchFiles(args: Arguments): TouchedFiles {
  const texts = ["input", "patch", "patchText", "diff", "arguments", "command", "cmd"].flatMap((field) => {
    const value = args[field];
    return Array.isArray(value) ? value : [value];
  });
  const found = patchedFiles(texts.filter((text) => typeof text === "string").join("\n"));
  const isEmpty = !found.written?.length && !found.edited?.length;
  return isEmpty ? { edited: paths(args) } : found;
}

/** Runs commands: its files cannot be known, but for a patch in the usual form. */
function commandFiles(args: Arguments): TouchedFiles {
  const { written = [], edited = [] } = patchFiles({ command: args["command"] ?? args["cmd"] });
  return { written, edited };
}

const reading = (name: string): FileTool => ({ name, files: (args) => ({ read: paths(args) }) });
const writing = (name: string): FileTool => ({ name, files: (args) => ({ written: paths(args) }) });
const editing = (name: string): FileTool => ({ name, files: (args) => ({ edited: paths(args) }) });
const using = (name: string, files: FileTool["files"]): FileTool => ({ name, files });

/** Tools of common agents, by the names they are known by. Extend it: `[...fileTools, myTool]`. */
export const fileTools: readonly FileTool[] = [
  ...["read", "read_file", "ReadFile", "read_many_files", "read_multiple_files", "read_text_file"].map(
    reading,
  ),
  ...["view", "view_file", "open_file", "NotebookRead", "view_image", "cat"].map(reading),
  ...["write", "write_file", "WriteFile", "create_file", "write_to_file", "save_file", "create"].map(writing),
  ...["edit", "edit_file", "EditFile", "MultiEdit", "multi_edit", "NotebookEdit", "replace"].map(editing),
  ...["str_replace", "replace_in_file", "search_replace", "insert", "apply_diff", "delete_file"].map(editing),
  ...["str_replace_based_edit_tool", "str_replace_editor"].map((name) => using(name, editorFiles)),
  ...["apply_patch", "patch"].map((name) => using(name, patchFiles)),
  ...["bash", "shell", "exec_command", "local_shell"].map((name) => using(name, commandFiles)),
  ...["move_file", "rename_file"].map((name) => using(name, moved)),
];
