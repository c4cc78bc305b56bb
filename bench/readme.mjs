// Writes the README's figures, between its two markers, from results.json: node bench/readme.mjs
// With --check it changes nothing and fails when they differ.
import { readFileSync, writeFileSync } from "node:fs";
import { readResults, withFigures } from "./lib/results.mjs";

const path = new URL("../README.md", import.meta.url);
const results = readResults();
const text = readFileSync(path, "utf8");
const wanted = results && withFigures(text, results);
if (!wanted) {
  console.error("Nothing to write: there are no results yet, or the README has no place for figures.");
  process.exitCode = process.argv.includes("--check") ? 0 : 1;
} else if (!process.argv.includes("--check")) writeFileSync(path, wanted);
else if (wanted !== text) {
  console.error("The README's figures are not those of bench/results.json; run `node bench/readme.mjs`.");
  process.exitCode = 1;
}
