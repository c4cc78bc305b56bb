// Measures this project beside others and beside what the machine can do, and says which goals hold.
//
//   node bench.mjs                        everything; installs what it needs first
//   node bench.mjs --only open,index      some lines
//   node bench.mjs --sizes 1000,10000     sessions of other sizes
//   node bench.mjs --smoke                a few seconds: does everything run? Installs nothing, writes no results
//   node bench.mjs --keep                 leaves the generated files for the next run
//   node bench.mjs --as-is                installs nothing: who is missing is said to be missing
import { rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Bench } from "./lib/bench.mjs";
import { benchNodeVersion, bundleProject, fetchNode, installContenders } from "./lib/contender.mjs";
import { readResults, resultsPath, tableOf, verdictOf } from "./lib/results.mjs";
import { lines } from "./lines.mjs";

const SIZES = [1_000, 10_000, 100_000, 1_000_000];
const SMOKE_SIZES = [100, 300];
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const { values: given } = parseArgs({
  options: {
    only: { type: "string" },
    sizes: { type: "string" },
    smoke: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    "as-is": { type: "boolean", default: false },
    folder: { type: "string", default: join(tmpdir(), "espalier-bench") },
  },
});
const only = given.only?.split(",") ?? lines.map(({ name }) => name);
const unknown = only.filter((name) => !lines.some((line) => line.name === name));
if (unknown.length > 0) {
  console.error(`There is no line ${unknown}; there are ${lines.map(({ name }) => name).join(", ")}.`);
  process.exit(2);
}
const installsNothing = given.smoke || given["as-is"];
if (!installsNothing) installContenders(here("."));
fetchNode({ offline: installsNothing });
await bundleProject(here(".work"));

const sizes = given.sizes?.split(",").map(Number) ?? (given.smoke ? SMOKE_SIZES : SIZES);
const folder = given.smoke ? join(given.folder, "smoke") : given.folder;
const bench = new Bench({ folder, sizes, isSmoke: given.smoke });
const started = performance.now();
const results = [];
for (const { name, title, run } of lines.filter((line) => only.includes(line.name))) {
  const began = performance.now();
  console.error(`… ${title}`);
  try {
    results.push({ name, title, rows: await run(bench) });
  } catch (error) {
    process.exitCode = 1;
    console.error(`${title} could not be measured: ${error instanceof Error ? error.stack : error}`);
  }
  bench.endLine();
  console.error(`  ${((performance.now() - began) / 1000).toFixed(0)} s`);
}
bench.end();
for (const { title, rows } of results) console.log(tableOf(title, rows));
for (const reason of Object.values(bench.missing)) console.log(`Not measured: ${reason}.`);
console.log(verdictOf(results));

if (!given.smoke) write(results);
if (!given.keep) rmSync(folder, { recursive: true, force: true });

/** Lines that were not measured keep what they were last time. */
function write(fresh) {
  const old = readResults()?.lines ?? [];
  const byName = new Map([...old, ...fresh].map((each) => [each.name, each]));
  const machine = {
    node: benchNodeVersion(),
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    date: new Date().toISOString().slice(0, 10),
    seconds: Math.round((performance.now() - started) / 1000),
  };
  writeFileSync(resultsPath, `${JSON.stringify({ machine, lines: [...byName.values()] }, undefined, 1)}\n`);
  console.error(`Written: ${resultsPath}`);
}
