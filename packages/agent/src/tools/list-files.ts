import { readdir } from "node:fs/promises";
import type { Tool } from "../tool.ts";
import { inside } from "./inside.ts";

/** Entries that one call shows at the most. */
const MOST = 1_000;

/** Lists a folder below the working folder. */
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
