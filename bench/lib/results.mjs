// What was measured last, line by line.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const resultsPath = fileURLToPath(new URL("../results.json", import.meta.url));

/** @typedef {{ machine: Record<string, string | number>, lines: { name: string, title: string, rows: import("./line.mjs").Row[] }[] }} Results */

/** @returns {Results | undefined} undefined before the first run */
export function readResults() {
  try {
    return JSON.parse(readFileSync(resultsPath, "utf8"));
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return undefined;
    throw error;
  }
}

/** The row of a line whose work begins with a text. */
export function rowOf(
  /** @type {Results} */ results,
  /** @type {string} */ name,
  /** @type {string} */ work,
) {
  return results.lines.find((line) => line.name === name)?.rows.find((row) => row.work.startsWith(work));
}
