import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
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

/** How many times as long the longer of two files is. */
const TIMES = 4;

/**
 * A small heap (MB) that the engine keeps small. With a larger one, memory is collected later, and the peak says nothing
 * about what is needed. Without `--optimize-for-size` the peak of the same import is 10 MB higher in some runs.
 */
const HEAP = ["--max-old-space-size=40", "--max-semi-space-size=2", "--optimize-for-size"];

/** What may come and go from one run to the next, in MB. What kept a number of each line in memory took 13 more, at least. */
const NOISE = 10;

function peakOf(path: string, home: string): { entries: number; megabytes: number } {
  const told = execFileSync(process.execPath, [...HEAP, program, path, home], { encoding: "utf8" });
  return JSON.parse(told);
}

/** Writes lines behind those of a file, a piece at a time. */
function writeLong(path: string, lines: Iterable<Line>): string {
  const file = openSync(path, "a");
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

/** Short lines, so that whatever is kept of each weighs most: two entries a turn. */
type Turns = (from: number, to: number) => Iterable<Line>;

function* claudeCodeTurns(from: number, to: number): Generator<Line> {
  for (let turn = from; turn < to; turn++) {
    yield user(`prompt-${turn}`, turn === 0 ? null : `answer-${turn - 1}`);
    yield answer(`answer-${turn}`, `prompt-${turn}`);
  }
}

function* codexTurns(from: number, to: number): Generator<Line> {
  const rollout = from === 0 ? new Rollout().meta() : new Rollout();
  for (let turn = from; turn < to; turn++) {
    rollout.items(message("user", `prompt ${turn}`), message("assistant", `answer ${turn}`));
    yield* rollout.lines.splice(0);
  }
}

const piTurns = (version: 1 | 3) =>
  function* (from: number, to: number): Generator<Line> {
    const timestamp = "2026-11-21T20:00:00.000Z";
    if (from === 0) yield { type: "session", version, id: SESSION, timestamp, cwd: "/" };
    // The first version has no ids.
    const place = (id: string, parentId: string | null) => (version === 1 ? {} : { id, parentId });
    for (let turn = from; turn < to; turn++) {
      const [prompt, said] = [`prompt-${turn}`, { type: "text", text: "yes" }];
      const before = turn === 0 ? null : `answer-${turn - 1}`;
      yield {
        type: "message",
        ...place(prompt, before),
        timestamp,
        message: { role: "user", content: "so?" },
      };
      yield {
        type: "message",
        ...place(`answer-${turn}`, prompt),
        timestamp,
        message: { role: "assistant", content: [said] },
      };
    }
  };

test.each<[string, string, number, Turns]>([
  ["Claude Code", `${SESSION}.jsonl`, 25_000, claudeCodeTurns],
  ["Codex", rolloutName(), 25_000, codexTurns],
  ["Pi, format 1", "first.jsonl", 20_000, piTurns(1)],
  ["Pi, format 3", "third.jsonl", 60_000, piTurns(3)],
])(
  "an import of %s needs the same memory for four times the lines, also an import of added lines",
  (_agent, name, turns, lines) => {
    const measured = (length: number): number[] => {
      const home = scratchFolder();
      const path = writeLong(join(scratchFolder(), name), lines(0, length));
      const whole = peakOf(path, home);
      expect(whole.entries).toBeGreaterThanOrEqual(length * 2);
      writeLong(path, lines(length, length + 1));
      const added = peakOf(path, home);
      expect(added.entries).toBe(2);
      return [whole.megabytes, added.megabytes];
    };
    const short = measured(turns);
    // What is needed is needed in every run; what the collector left for later is not.
    let long = measured(turns * TIMES);
    const isTooMuch = () => long.some((megabytes, at) => megabytes - short[at]! >= NOISE);
    for (let run = 0; run < 3 && isTooMuch(); run++) {
      const again = measured(turns * TIMES);
      long = long.map((megabytes, at) => Math.min(megabytes, again[at]!));
    }
    for (const [at, megabytes] of long.entries()) expect(megabytes - short[at]!).toBeLessThan(NOISE);
  },
  300_000,
);

const hasZstd = spawnSync("zstd", ["--version"]).status === 0;
const whySkipped = hasZstd ? "" : " (skipped: the command zstd is not there)";

/**
 * Long lines, so that the decompressed bytes weigh most: 100 MB and four times as much. A part of each is random: a file
 * that shrinks to less than a two-hundredth is refused as a bomb.
 */
function* longCodexTurns(turns: number): Generator<Line> {
  const text = "What was said before is said once more. ".repeat(250);
  const rollout = new Rollout().meta();
  for (let turn = 0; turn < turns; turn++) {
    const chance = randomBytes(200).toString("hex");
    rollout.items(message("user", `prompt ${turn}`), message("assistant", `${text}${chance}`));
    yield* rollout.lines.splice(0);
  }
}

test.skipIf(!hasZstd)(
  `a compressed file needs the same memory for four times the bytes${whySkipped}`,
  () => {
    const measured = (turns: number): number => {
      const path = writeLong(join(scratchFolder(), rolloutName()), longCodexTurns(turns));
      execFileSync("zstd", ["-q", "--rm", path]);
      const { entries, megabytes } = peakOf(`${path}.zst`, scratchFolder());
      expect(entries).toBeGreaterThanOrEqual(turns * 2);
      return megabytes;
    };
    const short = measured(10_000);
    let long = measured(10_000 * TIMES);
    for (let run = 0; run < 3 && long - short >= NOISE; run++)
      long = Math.min(long, measured(10_000 * TIMES));
    expect(long - short).toBeLessThan(NOISE);
  },
  300_000,
);

test("an import without space for its scratch file names the folder, and ends", () => {
  const path = writeLong(join(scratchFolder(), `${SESSION}.jsonl`), claudeCodeTurns(0, 100_000));
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
