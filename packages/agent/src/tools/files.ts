import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { formatMany } from "@espalier/session-tree";
import type { Tool, ToolContext } from "../tool.ts";

/** Largest file that is read, in bytes. */
const LARGEST = 10 * 1024 * 1024;

/** Maximum number of lines and bytes of one call, those of Pi's read tool. A call has at least one line, of any length. */
const MOST_LINES = 2_000;
const MOST_BYTES = 50 * 1024;

/**
 * Makes a tool that reads text files below the working folder, or files with content that was moved out of the
 * session's context.
 *
 * @param folders the working folder, to which paths are relative, then other folders with readable files
 */
export function readFileTool(folders: readonly string[]): Tool {
  return {
    name: "read_file",
    description: "Reads a text file. Lines are numbered from 1. Use offset and limit for long files.",
    parameters: {
      type: "object",
      properties: {
        path: { type: "string", description: "Relative to the working folder." },
        offset: { type: "integer", minimum: 1, description: "First line; default 1." },
        limit: {
          type: "integer",
          minimum: 1,
          description: `Number of lines; at most ${MOST_LINES}, or ${MOST_BYTES / 1024} KB.`,
        },
      },
      required: ["path"],
    },
    files: ({ path }) => (typeof path === "string" ? { read: [path] } : {}),
    async run({ path, offset = 1, limit = MOST_LINES }) {
      const file = await inside(folders, String(path));
      const facts = await stat(file);
      if (!facts.isFile()) throw new Error(`${path} is not a file; list_files shows what a folder holds.`);
      if (facts.size > LARGEST)
        throw new Error(`${path} has ${facts.size} bytes; search_text finds what you need in it.`);
      const lines = (await readFile(file, "utf8")).split("\n");
      const from = Math.max(1, Number(offset)) - 1;
      const shown: string[] = [];
      let room = MOST_BYTES;
      for (const line of lines.slice(from, from + Math.min(Number(limit), MOST_LINES))) {
        room -= Buffer.byteLength(line);
        if (room < 0 && shown.length > 0) break;
        shown.push(`${from + shown.length + 1}\t${line}`);
      }
      const end = from + shown.length;
      if (end < lines.length)
        shown.push(`[${formatMany(lines.length - end, "more line")}; continue with offset ${end + 1}]`);
      return shown.join("\n");
    },
  };
}

/** Maximum number of files and folders in one list. */
const MOST = 1_000;

/** Makes a tool that lists a folder below the working folder. */
export function listFilesTool(folders: readonly string[]): Tool {
  return {
    name: "list_files",
    description: "Lists the files and folders in a folder; folders end in /.",
    parameters: {
      type: "object",
      properties: {
        path: { type: "string", description: "Relative to the working folder; default: that folder." },
      },
    },
    async run({ path = "." }) {
      const folder = await inside(folders, String(path));
      const found = await readdir(folder, { withFileTypes: true }).catch(() => {
        throw new Error(`${path} is not a folder; read_file reads files.`);
      });
      const names = found.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name)).sort();
      const shown = names.slice(0, MOST);
      return (
        [...shown, ...(names.length > MOST ? [`[${names.length - MOST} more]`] : [])].join("\n") || "(empty)"
      );
    },
  };
}

const MOST_MATCHES = 200;
const LARGEST_FILE = 2 * 1024 * 1024;
const LONGEST_LINE = 300;

/** Folders with dependencies and build output, which are not searched. */
const PASSED_OVER = new Set(["node_modules", ".git", "dist", "coverage"]);

/** Makes a tool that finds a text in files below the working folder. Binary files and files over 2 MiB are left out. */
export function searchTextTool(folders: readonly string[]): Tool {
  return {
    name: "search_text",
    description:
      "Finds lines that contain a text, in all files below a folder (dependencies and build output passed over). Answers path:line: text.",
    parameters: {
      type: "object",
      properties: {
        text: {
          type: "string",
          description: "What to find, letter by letter; upper and lower case are the same.",
        },
        path: { type: "string", description: "Where; default: the working folder." },
      },
      required: ["text"],
    },
    async run({ text, path = "." }, context) {
      const wanted = String(text).toLowerCase();
      if (wanted === "") throw new Error("`text` is empty; say what to find.");
      const start = await inside(folders, String(path));
      const home = await inside(folders, ".");
      const matches: string[] = [];
      let unread = 0;
      const readable: Readable = (reading) =>
        reading.catch(() => {
          unread++;
          return [];
        });
      for await (const file of filesBelow(start, context, readable)) {
        for (const match of await readable(matchesIn(file, wanted))) {
          matches.push(`${relative(home, file)}:${match}`);
          if (matches.length === MOST_MATCHES)
            return `${matches.join("\n")}\n[more matches: narrow the text or the path]`;
        }
      }
      const found = matches.join("\n") || `No line contains ${JSON.stringify(text)}.`;
      return unread > 0 ? `${found}\n[${unread} files or folders could not be read]` : found;
    },
  };
}

/** Returns the result of `reading`, or none when it fails: one unreadable file must not end a search. */
type Readable = <Found>(reading: Promise<Found[]>) => Promise<Found[]>;

/**
 * Yields the files below a folder and its subfolders, except links and {@link PASSED_OVER}; of a file, the file itself.
 * Ends when the signal is aborted.
 */
async function* filesBelow(
  start: string,
  { signal }: ToolContext,
  readable: Readable,
): AsyncGenerator<string> {
  if ((await stat(start)).isFile()) {
    yield start;
    return;
  }
  const folders = [start];
  for (let folder = folders.pop(); folder !== undefined && !signal.aborted; folder = folders.pop()) {
    const entries = await readable(readdir(folder, { withFileTypes: true }));
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (entry.isFile()) yield join(folder, entry.name);
      else if (entry.isDirectory() && !PASSED_OVER.has(entry.name)) folders.push(join(folder, entry.name));
    }
  }
}

async function matchesIn(file: string, wanted: string): Promise<string[]> {
  if ((await stat(file)).size > LARGEST_FILE) return [];
  const content = await readFile(file, "utf8");
  if (content.includes("\0")) return [];
  return content
    .split("\n")
    .flatMap((line, at) =>
      line.toLowerCase().includes(wanted) ? [`${at + 1}: ${line.trim().slice(0, LONGEST_LINE)}`] : [],
    );
}

/**
 * Returns the real path of a file or folder below one of these folders. Links are resolved first, so that no link leads
 * out of them.
 * @throws Error with a message for the model
 */
async function inside(folders: readonly string[], path: string): Promise<string> {
  const wanted = resolve(folders[0] ?? ".", path);
  const real = await realpath(wanted).catch(() => {
    throw new Error(`There is no file or folder ${path}.`);
  });
  for (const folder of folders) {
    const way = relative(await realpath(folder).catch(() => folder), real);
    // On Windows, the way to another drive is an absolute path.
    if (!way.startsWith(`..${sep}`) && way !== ".." && !isAbsolute(way)) return real;
  }
  throw new Error(`${path} is outside the working folder; only what is below it can be read.`);
}
