import { readFile, stat } from "node:fs/promises";
import type { Tool } from "../tool.ts";
import { inside } from "./inside.ts";

/** Bytes above which a file is not read whole. */
const LARGEST = 10 * 1024 * 1024;

/** Lines that one call gives at the most, unless it asks for fewer. */
const MOST_LINES = 2_000;

/** Reads a text file below the working folder, or one that was moved out of the session's context. */
export function readFileTool(folders: readonly string[]): Tool {
  return {
    name: "read_file",
    description: "Reads a text file. Lines are numbered from 1. Use offset and limit for long files.",
    parameters: {
      type: "object",
      properties: {
        path: { type: "string", description: "Relative to the working folder." },
        offset: { type: "integer", minimum: 1, description: "First line; default 1." },
        limit: { type: "integer", minimum: 1, description: `Number of lines; default ${MOST_LINES}.` },
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
      const shown = lines.slice(from, from + Number(limit));
      const rest = lines.length - from - shown.length;
      const text = shown.map((line, at) => `${from + at + 1}\t${line}`).join("\n");
      return rest > 0 ? `${text}\n[${rest} more lines]` : text;
    },
  };
}
