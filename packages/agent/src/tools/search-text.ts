import { readdir, readFile, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import type { Tool, ToolContext } from "../tool.ts";
import { inside } from "./inside.ts";

const MOST_MATCHES = 200;
const LARGEST_FILE = 2 * 1024 * 1024;
const LONGEST_LINE = 300;

/** Folders that hold what others made. */
const PASSED_OVER = new Set(["node_modules", ".git", "dist", "coverage"]);

/** Finds a text in files below the working folder. */
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
      const readable: Readable = (reading, instead) =>
        reading.catch(() => {
          unread++;
          return instead;
        });
      for await (const file of filesBelow(start, context, readable)) {
        for (const match of await readable(matchesIn(file, wanted), [])) {
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

/** What could be read, or `instead`: one file that is somebody else's must not end a search. */
type Readable = <Found>(reading: Promise<Found>, instead: Found) => Promise<Found>;

/** Without recursion and without following links. */
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
    const entries = await readable(readdir(folder, { withFileTypes: true }), []);
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
