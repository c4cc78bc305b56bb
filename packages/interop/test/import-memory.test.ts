import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { expect, test } from "vitest";
import { answer, type Line, SESSION, user } from "./claude-code-lines.ts";
import { message, Rollout, rolloutName } from "./codex-lines.ts";
import { scratchFolder } from "./import-scratch.ts";

const folder = scratchFolder();
const program = join(folder, "import-peak.mjs");
buildSync({
  entryPoints: [fileURLToPath(new URL("import-peak.ts", import.meta.url))],
  bundle: true,
  platform: "node",
  format: "esm",
  banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
  outfile: program,
});

/** Short lines: whatever is kept of each weighs most. */
const TURNS = 25_000;
const TIMES = 4;

/** Megabytes of the heap. With more at hand it is collected later, and the process says nothing of what is needed. */
const HEAP = ["--max-old-space-size=40", "--max-semi-space-size=2"];

/** What may come and go from one run to the next. A table of the lines in memory takes 25 MB more, at least. */
const NOISE = 12;

function peakOf(path: string): { entries: number; megabytes: number } {
  const told = execFileSync(process.execPath, [...HEAP, program, path, scratchFolder()], {
    encoding: "utf8",
  });
  return JSON.parse(told);
}

/** Writes a long file, a piece at a time. */
function writeLong(name: string, lines: Iterable<Line>): string {
  const path = join(scratchFolder(), name);
  const file = openSync(path, "w");
  let waiting = "";
  for (const line of lines) {
    waiting += `${JSON.stringify(line)}\n`;
    if (waiting.length < 1 << 20) continue;
    writeSync(file, waiting);
    waiting = "";
  }
  writeSync(file, waiting);
  closeSync(file);
  return path;
}

function* claudeCodeLines(turns: number): Generator<Line> {
  let parent: string | null = null;
  for (let turn = 0; turn < turns; turn++) {
    yield user(`prompt-${turn}`, parent);
    yield answer(`answer-${turn}`, `prompt-${turn}`);
    parent = `answer-${turn}`;
  }
}

function* codexLines(turns: number): Generator<Line> {
  const rollout = new Rollout().meta();
  for (let turn = 0; turn < turns; turn++) {
    rollout.items(message("user", `prompt ${turn}`), message("assistant", `answer ${turn}`));
    yield* rollout.lines.splice(0);
  }
}

test.each([
  ["Claude Code", `${SESSION}.jsonl`, claudeCodeLines],
  ["Codex", rolloutName(), codexLines],
])(
  "an import of %s takes the same memory for four times the lines",
  (_agent, name, lines) => {
    const short = peakOf(writeLong(name, lines(TURNS)));
    const long = peakOf(writeLong(name, lines(TURNS * TIMES)));
    expect(long.entries - short.entries).toBe(TURNS * (TIMES - 1) * 2);
    expect(long.megabytes - short.megabytes).toBeLessThan(NOISE);
  },
  300_000,
);

test("an import that finds no room for what it has to remember names the folder, and ends", () => {
  const path = writeLong(`${SESSION}.jsonl`, claudeCodeLines(TURNS * TIMES));
  const missing = join(scratchFolder(), "missing");
  const env = { ...process.env, TMPDIR: missing, TEMP: missing };
  const { status, stderr } = spawnSync(process.execPath, [program, path, scratchFolder()], {
    encoding: "utf8",
    env,
  });
  expect(status).toBe(1);
  expect(stderr).toContain("no-room");
  expect(stderr).toContain(missing);
}, 300_000);
