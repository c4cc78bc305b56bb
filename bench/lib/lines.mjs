// All lines, in the order of the table: those named here first, then whatever else stands in `lines/`.
import { readdirSync } from "node:fs";

const folder = new URL("../lines/", import.meta.url);
const ORDER = [
  "open",
  "no-compaction",
  "old-leaf",
  "index",
  "memory",
  "step",
  "plan",
  "append",
  "request",
  "sync",
  "fork",
  "list",
  "huge-line",
  "many-entries",
  "search",
  "deciding",
  "turns",
  "recall",
];

/** @returns {Promise<import("./line.mjs").Line[]>} */
export async function allLines(/** @type {string[] | undefined} */ only) {
  const names = readdirSync(folder)
    .filter((file) => file.endsWith(".mjs"))
    .map((file) => file.slice(0, -".mjs".length))
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const unknown = (only ?? []).filter((name) => !names.includes(name));
  if (unknown.length > 0) {
    console.error(`There is no line ${unknown.join(", ")}; there are ${names.join(", ")}.`);
    process.exit(2);
  }
  const wanted = names.filter((name) => !only || only.includes(name));
  return Promise.all(wanted.map(async (name) => (await import(new URL(`${name}.mjs`, folder).href)).line));
}

const rank = (/** @type {string} */ name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
