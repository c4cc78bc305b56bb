// Writes the README's figures, between its two markers, and docs/performance/*.svg from results.json: node bench/readme.mjs
// With --check it changes nothing and fails when the README's figures are others.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { plotSvg, plotsOf } from "./lib/plot.mjs";
import { readResults, withFigures } from "./lib/results.mjs";

const path = new URL("../README.md", import.meta.url);
const folder = fileURLToPath(new URL("../docs/performance/", import.meta.url));
const isCheck = process.argv.includes("--check");
const results = readResults();
const text = readFileSync(path, "utf8");
const wanted = results && withFigures(text, results);
if (!wanted) {
  console.error("Nothing to write: there are no results yet, or the README has no place for figures.");
  process.exitCode = isCheck ? 0 : 1;
} else if (isCheck && wanted !== text) {
  console.error("The README's figures are not those of bench/results.json; run `node bench/readme.mjs`.");
  process.exitCode = 1;
} else if (!isCheck) {
  writeFileSync(path, wanted);
  mkdirSync(folder, { recursive: true });
  for (const [name, plot] of Object.entries(plotsOf(results)))
    if (plot.series.length > 0) writeFileSync(`${folder}${name}.svg`, plotSvg(plot));
}
