// Measures this project beside others and beside what the machine can do, and reports which goals hold.
// `node bench.mjs --help` lists the options.
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

const names = lines.map(({ name }) => name);
const USAGE = `Usage: node bench.mjs [options]

Measures every line of the bench, prints tables, and writes the results. Installs its dependencies and the
contenders first.

  --only <names>      measure these lines alone, separated by commas
  --sizes <numbers>   numbers of entries, separated by commas; default ${SIZES}
  --smoke             run every line once with tiny sizes, in a few seconds; installs nothing, writes no results
  --keep              keep the generated files for the next run
  --as-is             install nothing; a contender that is not installed is reported as not measured
  --folder <path>     folder of the generated files; default ${join(tmpdir(), "espalier-bench")}

Lines: ${names.join(", ")}`;

const given = readOptions();
if (given.help) {
  console.log(USAGE);
  process.exit();
}
const only = given.only?.split(",") ?? names;
const unknown = only.filter((name) => !names.includes(name));
if (unknown.length > 0)
  refuse(`--only: there is no line "${unknown.join('", "')}". The lines are ${names.join(", ")}.`);
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
for (const reason of bench.missing.values()) console.log(`Not measured: ${reason}.`);
console.log(verdictOf(results));

if (!given.smoke) write(results);
if (!given.keep) rmSync(folder, { recursive: true, force: true });

/** Returns the options of the command line; prints one sentence and exits with 2 when an option is unknown or incomplete. */
function readOptions() {
  try {
    return parseArgs({
      options: {
        help: { type: "boolean", short: "h", default: false },
        only: { type: "string" },
        sizes: { type: "string" },
        smoke: { type: "boolean", default: false },
        keep: { type: "boolean", default: false },
        "as-is": { type: "boolean", default: false },
        folder: { type: "string", default: join(tmpdir(), "espalier-bench") },
      },
    }).values;
  } catch (error) {
    return refuse(`${error.message.split(". ")[0].replace(/\.$/, "")}. See node bench.mjs --help.`);
  }
}

function refuse(message) {
  console.error(message);
  process.exit(2);
}

/** Writes the results. Lines that were not measured keep their last results. */
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
