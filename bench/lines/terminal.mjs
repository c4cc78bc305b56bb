// The terminal's interface: from the start of the process to the first screen of a session, and what a key takes.
import { spawn, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { median } from "../lib/bench.mjs";
import { atMost } from "../lib/goal.mjs";

const root = join(import.meta.dirname, "../..");
const START = join(root, "scripts/espalier.mjs");

const terminal = {
  name: "terminal",
  title: "Terminal",
  async run(bench) {
    const figures = bench.isSmoke || !canScript() ? undefined : await measured(bench);
    const { start, screen, keys } = figures ?? {};
    const own = screen === undefined || start === undefined ? undefined : Math.max(0, screen - start);
    return [
      {
        work: "first screen, 1M entries, beyond the start of the process",
        unit: "ms",
        figures: { espalier: own },
        goals: [atMost("≤ 150 ms", own, 150)],
        facts: { start, screen },
      },
      ...SIZES.map(({ columns, rows }, at) => {
        const { work, worst, waited } = keys?.[at] ?? {};
        return {
          work: `a key while 1M entries are moved through, ${columns} × ${rows}, work until it is written`,
          unit: "ms",
          figures: { espalier: work },
          goals: [atMost("≤ 16 ms", work, 16), atMost("99 of 100 ≤ 16 ms", worst, 16)],
          facts: { worst, waited },
        };
      }),
    ];
  },
};

/** Whether there is a program that lends a terminal to a command. */
const canScript = () => spawnSync("script", ["--version"]).status === 0;

const ROUNDS = 7;

/** Screens that keys are pressed on. */
const SIZES = [
  { columns: 80, rows: 24 },
  { columns: 200, rows: 50 },
];

/** Keys that are pressed until everything is compiled, and keys that are measured. */
const WARMING = 200;
const PRESSED = 600;

/** Milliseconds between two keys, as when one is held down: the screen is drawn 60 times a second at the most. */
const BETWEEN = 25;

async function measured(bench) {
  const { path } = bench.session({ entries: 1_000_000 });
  const starts = [];
  const screens = [];
  for (let round = 0; round <= ROUNDS; round++) {
    // The first round warms the caches, and makes the bundle.
    starts.push(await untilShown("--version", /\d+\.\d+\.\d+/));
    screens.push(await untilShown(path, /\[1 what was said\]/));
  }
  return {
    start: median(starts.slice(1)),
    screen: median(screens.slice(1)),
    keys: await pressedKeys(bench, path),
  };
}

/** Milliseconds until the command has written something to a terminal of its own. */
async function untilShown(parameter, pattern) {
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
  const lingering = new AbortController();
  setTimeout(2_000, undefined, { signal: lingering.signal }).then(
    () => child.kill(),
    () => undefined,
  );
  await over;
  lingering.abort();
  return elapsed;
}

/**
 * What keys take in a process that has answered some, by size of the screen: the processor's time of the process from a
 * key to its frame's last byte, what draws included, and beside it what the clock says, which is the machine's load too.
 */
async function pressedKeys(bench, path) {
  const core = await terminalCore(bench.scratch());
  const log = await core.fileStore({ home: bench.scratch() }).open({ file: path }, "read");
  const reader = new core.SessionReader(log, async () => {});
  reader.begin();
  const model = await reader.complete();
  await reader.lookAhead(async () => {});
  const results = [];
  for (const size of SIZES) {
    const terminal = new core.Terminal(core.firstState(size, { now: Date.now(), isColoured: true }));
    const screen = writable(size);
    const end = core.drawScreen(
      {
        current: () =>
          core.paintFrame(core.view(terminal.state), size.columns, { colours: true, ascii: false }),
        subscribe: (changed) => terminal.subscribe(changed),
      },
      screen.stdout,
    );
    const writer = { name: "extractive", isBilled: false };
    terminal.dispatch({ type: "opened", ref: path, cwd: "", writer, model });
    const worked = [];
    const waited = [];
    for (let at = 0; at < WARMING + PRESSED; at++) {
      await setTimeout(BETWEEN);
      const written = screen.written();
      const before = process.cpuUsage();
      const began = performance.now();
      terminal.dispatch({ type: "key", key: at % 10 === 9 ? "pageup" : "up" });
      await written;
      const { user, system } = process.cpuUsage(before);
      if (at < WARMING) continue;
      worked.push((user + system) / 1_000);
      waited.push(performance.now() - began);
    }
    end();
    results.push({ work: median(worked), worst: percentile(worked, 0.99), waited: percentile(waited, 0.99) });
  }
  await log.close();
  return results;
}

/** The terminal's own modules, and what draws them, as they are bundled for the command. */
async function terminalCore(folder) {
  const { buildSync } = createRequire(join(root, "package.json"))("esbuild");
  const contents = [
    "screen/paint.ts",
    "effects/session-effects.ts",
    "terminal.ts",
    "screen/screen.tsx",
    "view/view.ts",
  ]
    .map((name) => `export * from "./${name}";`)
    .concat('export { fileStore } from "@espalier/session-tree/node";')
    .join("\n");
  buildSync({
    stdin: { contents, resolveDir: join(root, "apps/cli/src/terminal"), loader: "ts" },
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    external: ["react-devtools-core"],
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
  // Ink draws nothing where it takes a CI for its reader.
  process.env.CI = "false";
  return await import(pathToFileURL(join(folder, "stdin.mjs")).href);
}

/** A terminal of that size that takes everything at once; `written` answers when the next bytes are there. */
function writable(size) {
  let tell = () => {};
  const stdout = new Writable({
    write(_, __, done) {
      done();
      tell();
    },
  });
  const written = () => new Promise((resolve) => (tell = () => resolve()));
  return { stdout: Object.assign(stdout, { ...size, isTTY: true }), written };
}

function percentile(numbers, share) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export const lines = [terminal];
