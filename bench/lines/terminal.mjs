// The terminal's interface: time from the start of the process to the first screen of a session, and the work of a key.
import { spawn, spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { median, percentile } from "../lib/bench.mjs";
import { atMost, rowOf } from "../lib/goal.mjs";

const root = join(import.meta.dirname, "../..");
const START = join(root, "scripts/espalier.mjs");

const terminal = {
  name: "terminal",
  title: "Terminal",
  async run(bench) {
    const { path } = bench.session({ entries: 1_000_000 });
    const { start, screen } = bench.isSmoke || !canScript() ? {} : await firstScreens(path);
    const keys = await pressedKeys(bench, path);
    const own = screen === undefined || start === undefined ? undefined : Math.max(0, screen - start);
    return [
      rowOf(
        "first screen, 1M entries, beyond the start of the process",
        "ms",
        own,
        [atMost("≤ 150 ms", own, 150)],
        { facts: { start, screen } },
      ),
      ...SIZES.map(({ columns, rows }, at) => {
        const { work, worst, waited } = keys[at];
        return rowOf(
          `a key while 1M entries are moved through, ${columns} × ${rows}, work until it is written`,
          "ms",
          work,
          [atMost("≤ 16 ms", work, 16), atMost("99 of 100 ≤ 16 ms", worst, 16)],
          { facts: { worst, waited } },
        );
      }),
    ];
  },
};

/** Returns whether the program `script`, which provides a terminal for a command, is installed. */
const canScript = () => spawnSync("script", ["--version"]).status === 0;

const ROUNDS = 7;

const SIZES = [
  { columns: 80, rows: 24 },
  { columns: 200, rows: 50 },
];

/** Number of keys until all code is compiled, and number of measured keys. */
const WARMING = 200;
const PRESSED = 600;

/** Milliseconds between two keys, as when a key is held down. The screen is drawn at most 60 times a second. */
const BETWEEN = 25;

async function firstScreens(path) {
  const starts = [];
  const screens = [];
  for (let round = 0; round <= ROUNDS; round++) {
    // The first round warms the caches and makes the bundle.
    starts.push(await untilShown("--version", /\d+\.\d+\.\d+/));
    screens.push(await untilShown(path, /\[1 what was said\]/));
  }
  return { start: median(starts.slice(1)), screen: median(screens.slice(1)) };
}

/** Milliseconds until the command has written a pattern to its terminal. */
async function untilShown(parameter, pattern) {
  const began = performance.now();
  const command = `'${process.execPath}' '${START}' '${parameter}'`;
  const child = spawn("script", ["-qfc", command, "/dev/null"], { stdio: ["pipe", "pipe", "ignore"] });
  const over = new Promise((resolve) => child.on("close", resolve));
  // The command may have ended before the key is written.
  child.stdin.on("error", () => undefined);
  let written = "";
  const elapsed = await new Promise((resolve) => {
    child.stdout.on("data", (piece) => {
      written += piece;
      if (pattern.test(written)) resolve(performance.now() - began);
    });
  });
  // Presses the key that quits.
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
 * Measures keys by size of the screen, in a process that has already handled some keys: CPU time from a key to the last
 * byte of its frame, including the drawing, and elapsed time, which also depends on the machine's load.
 */
async function pressedKeys(bench, path) {
  const core = await terminalCore(bench.scratch());
  const { opened, close } = await openedSession(core, path);
  const results = [];
  for (const size of SIZES) {
    const fd = openSync("/dev/null", "w");
    const screen = new core.Screen(INPUT, { fd, ...size }, { colours: true, ascii: false });
    let state = core.firstState({ size, now: Date.now(), isColoured: true });
    const handle = (event) => {
      ({ state } = core.update(state, event));
      screen.draw(core.view(state), size.columns);
    };
    screen.enter();
    handle(opened);
    const worked = [];
    const waited = [];
    const warming = bench.count(WARMING, 2);
    for (let at = 0; at < warming + bench.count(PRESSED, 5); at++) {
      await setTimeout(BETWEEN);
      const before = process.cpuUsage();
      const began = performance.now();
      handle({ type: "key", key: at % 10 === 9 ? "pageup" : "up" });
      const { user, system } = process.cpuUsage(before);
      if (at < warming) continue;
      worked.push((user + system) / 1_000);
      waited.push(performance.now() - began);
    }
    screen.leave();
    closeSync(fd);
    results.push({ work: median(worked), worst: percentile(worked, 99), waited: percentile(waited, 99) });
  }
  close();
  return results;
}

/** Returns the event of a session that was read completely, and a function that closes it. */
async function openedSession(core, path) {
  const shell = { globals: {}, interactive: false };
  return await new Promise((resolve, reject) => {
    const { performers } = core.sessionEffects(shell, (event) => {
      if (event.type === "failed") reject(new Error(event.message));
      if (event.type === "opened" && !event.model.isPartial)
        resolve({ opened: event, close: () => performers.close({ type: "close" }) });
    });
    performers.open({ type: "open", ref: path });
  });
}

/** Bundles the terminal's own modules with their drawing code, as for the command. */
async function terminalCore(folder) {
  const { buildSync } = createRequire(join(root, "package.json"))("esbuild");
  const contents = ["open-terminal.ts", "screen/screen.ts", "state/state.ts", "state/update.ts"]
    .map((name) => `export * from "./${name}";`)
    .join("\n");
  buildSync({
    stdin: { contents, resolveDir: join(root, "apps/cli/src/terminal"), loader: "ts" },
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    define: { "process.env.NODE_ENV": '"production"' },
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  });
  return await import(pathToFileURL(join(folder, "stdin.mjs")).href);
}

const INPUT = { setRawMode: () => {}, resume: () => {}, pause: () => {} };

export const lines = [terminal];
