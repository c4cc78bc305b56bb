// The terminal's interface: from the start of the process to the first screen of a session, and what a key takes.
import { spawn, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { atMost } from "../lib/goal.mjs";

const root = join(import.meta.dirname, "../..");
const START = join(root, "scripts/espalier.mjs");

/** @type {import("../lib/line.mjs").Line} */
export const line = {
  name: "terminal",
  title: "Terminal",
  async run(bench) {
    const figures = bench.isSmoke || !canScript() ? undefined : await measured(bench);
    const { start, screen, key, worst } = figures ?? {};
    const own = screen === undefined || start === undefined ? undefined : Math.max(0, screen - start);
    return [
      {
        work: "first screen, 1M entries, beyond the start of the process",
        unit: "ms",
        figures: { espalier: own },
        goals: [atMost("≤ 150 ms", own, 150)],
        facts: { start, screen },
      },
      {
        work: "a key while 1M entries are moved through, work until it is painted",
        unit: "ms",
        figures: { espalier: key },
        goals: [atMost("≤ 16 ms", key, 16), atMost("99 of 100 ≤ 16 ms", worst, 16)],
        facts: { worst },
      },
    ];
  },
};

/** Whether there is a program that lends a terminal to a command. */
const canScript = () => spawnSync("script", ["--version"]).status === 0;

const ROUNDS = 7;

async function measured(/** @type {import("../lib/bench.mjs").Bench} */ bench) {
  const { path } = bench.session({ entries: 1_000_000 });
  const starts = [];
  const screens = [];
  for (let round = 0; round <= ROUNDS; round++) {
    // The first round warms the caches, and makes the bundle.
    starts.push(await untilShown("--version", /\d+\.\d+\.\d+/));
    screens.push(await untilShown(path, /\[1 what was said\]/));
  }
  const { key, worst } = await keys(bench, path);
  return { start: median(starts.slice(1)), screen: median(screens.slice(1)), key, worst };
}

/** Milliseconds until the command has written something to a terminal of its own. */
async function untilShown(/** @type {string} */ parameter, /** @type {RegExp} */ pattern) {
  const began = performance.now();
  const command = `'${process.execPath}' '${START}' '${parameter}'`;
  const child = spawn("script", ["-qfc", command, "/dev/null"], { stdio: ["pipe", "pipe", "ignore"] });
  const over = new Promise((resolve) => child.on("close", resolve));
  // One that is over by then needs no key.
  child.stdin.on("error", () => undefined);
  let written = "";
  const elapsed = await new Promise((resolve) => {
    child.stdout.on("data", (piece) => {
      written += piece;
      if (pattern.test(written)) resolve(performance.now() - began);
    });
  });
  // What a person presses to leave.
  child.stdin.write("q");
  const timer = setTimeout(() => child.kill(), 2_000);
  await over;
  clearTimeout(timer);
  return elapsed;
}

/** What keys take in a process that has answered some: from the key to the painted frame. */
async function keys(/** @type {import("../lib/bench.mjs").Bench} */ bench, /** @type {string} */ path) {
  const outfile = join(bench.scratch(), "core.mjs");
  const { buildSync } = createRequire(join(root, "package.json"))("esbuild");
  const contents = ["paint", "session-reader", "terminal", "update", "view"]
    .map((name) => `export * from "./${name}.ts";`)
    .concat('export { fileStore } from "@espalier/session-tree/node";')
    .join("\n");
  const resolveDir = join(root, "apps/cli/src/terminal");
  buildSync({
    stdin: { contents, resolveDir, loader: "ts" },
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
  const core = await import(pathToFileURL(outfile).href);
  const log = await core.fileStore({ home: bench.scratch() }).open(path, "read");
  const reader = new core.SessionReader(log, async () => {});
  reader.begin();
  const model = await reader.complete();
  let state = core.firstState({ columns: 80, rows: 24 }, { now: Date.now(), isColoured: true });
  const happen = (/** @type {object} */ event) => {
    state = core.update(state, event).state;
    core.paintFrame(core.view(state), 80, { colours: true, ascii: false });
  };
  const nobody = { name: "extractive", isBilled: false };
  happen({ type: "opened", ref: path, cwd: "", writer: nobody, model });
  const times = [];
  for (let at = 0; at < 1_200; at++) {
    const key = at % 10 === 9 ? "pageup" : "up";
    const began = performance.now();
    happen({ type: "key", key });
    if (at >= 200) times.push(performance.now() - began);
  }
  await log.close();
  times.sort((a, b) => a - b);
  return { key: median(times), worst: times[Math.floor(times.length * 0.99)] };
}

function median(/** @type {number[]} */ numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}
