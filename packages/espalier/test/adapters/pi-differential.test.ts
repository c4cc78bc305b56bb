import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EspalierError, openSession, type Session } from "espalier";
import { exportNative, toAnthropic } from "espalier/import";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { SessionManager } from "../../src/adapters/pi.ts";
import { type Played, play, tell } from "./pi/play.ts";

/** The newest version that its registry has whole; it needs a newer Node than this project. */
const PACKAGES = ["node@24", "@earendil-works/pi-coding-agent@1.6.0"];
const CALLS = [
  ...["user", "assistant", "result", "bash", "thinking", "model", "usage", "compact", "custom", "name"],
  ...[
    "inject",
    "edit",
    "label",
    "branch",
    "reset",
    "leave",
    "extract",
    "reopen",
    "fork",
    "user",
    "assistant",
  ],
];

const folder = mkdtempSync(join(tmpdir(), "espalier-pi-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const call = fc.record({
  call: fc.constantFrom(...CALLS),
  at: fc.nat(200),
  text: fc.constantFrom("one", "two words", "drei\nZeilen", "🌳 a tree", "", "x".repeat(300)),
});

/** Runs Node 24 with the real Pi beside it. */
function runNode(...given: string[]): void {
  const packages = PACKAGES.flatMap((name) => ["-p", name]);
  execFileSync("npx", ["--yes", ...packages, "node", ...given], { stdio: "pipe", timeout: 280_000 });
}

/** Installs Pi and Node 24. False where npx cannot get them; once it has them, every failure is one of the test. */
function hasPi(): boolean {
  try {
    runNode("--version");
    return true;
  } catch {
    return false;
  }
}
const isPiThere = hasPi();
const whySkipped = isPiThere ? "" : " (skipped: npx cannot get Pi or Node 24 here)";

/** Runs a program of this folder. */
const runWithPi = (program: string, ...given: string[]): void =>
  runNode(join(import.meta.dirname, "pi", program), ...given);

/** What the real Pi answers. */
function realPi(question: object): { played: Played[]; read: unknown[] } {
  const [input, output] = [join(folder, "question.json"), join(folder, "answer.json")];
  writeFileSync(input, JSON.stringify({ folder: join(folder, "theirs"), ...question }));
  runWithPi("real.ts", input, output);
  return JSON.parse(readFileSync(output, "utf8"));
}

// One seed: a sequence that fails is a fault, not bad luck of a run. Another one is a number away.
const SEED = 23;

test.skipIf(!isPiThere)(
  `200 random sequences do the same on ours and on Pi, and each reads the other's files${whySkipped}`,
  {
    timeout: 600_000,
  },
  () => {
    const sequences = fc.sample(fc.array(call, { minLength: 1, maxLength: 40 }), {
      numRuns: 200,
      seed: SEED,
    });
    const theirs = realPi({ sequences });
    const ours = sequences.map((calls) => play(SessionManager, calls, join(folder, "ours")));
    for (const [at, played] of ours.entries()) {
      const { told, refused } = theirs.played[at]!;
      expect({ told: played.told, refused: played.refused }, JSON.stringify(sequences[at])).toEqual({
        told,
        refused,
      });
    }
    const files = [...ours, ...theirs.played].flatMap(({ file }) => file ?? []);
    expect(files.length).toBeGreaterThan(100);
    expect(realPi({ files }).read).toEqual(files.map(read));
  },
);

test.skipIf(!isPiThere)(
  `Pi reads an exported session like Espalier, with whole pairs${whySkipped}`,
  { timeout: 600_000 },
  async () => {
    const sequences = fc.sample(fc.array(call, { minLength: 5, maxLength: 40 }), {
      numRuns: 150,
      seed: SEED,
    });
    const exported: string[] = [];
    for (const calls of sequences) {
      const { file } = play(SessionManager, calls, join(folder, "exported"));
      if (file === null) continue;
      const session = await openSession({ file }, { mode: "read", whole: true });
      const out = join(folder, `exported-${exported.length}.jsonl`);
      const request = requestOf(session);
      if (request === undefined) continue;
      writeFileSync(out, [...exportNative(session, { agent: "pi" })].join(""));
      exported.push(out);
      const again = await openSession({ file: out }, { mode: "read", whole: true });
      // Requests heal what files do not.
      expect(requestOf(again)).toEqual(request);
      await session.close();
      await again.close();
    }
    expect(exported.length).toBeGreaterThan(60);
    expect(realPi({ files: exported }).read).toEqual(exported.map(read));
  },
);

/** The request of a session; undefined where nothing in it speaks. */
function requestOf({ context }: Session): object | undefined {
  try {
    return toAnthropic(context);
  } catch (error) {
    if (error instanceof EspalierError && error.code === "empty-context") return undefined;
    throw error;
  }
}

function read(file: string): unknown {
  using session = SessionManager.open<SessionManager>(file);
  return tell(session);
}

test.skipIf(!isPiThere)(
  `a host of Pi's SDK prompts, calls a tool, leaves a branch and compacts on ours${whySkipped}`,
  {
    timeout: 300_000,
  },
  () => {
    const [home, output] = [join(folder, "host"), join(folder, "host.json")];
    runWithPi("host.ts", home, output);
    const { file, messages, ours, theirs } = JSON.parse(readFileSync(output, "utf8"));
    expect(ours).toEqual(theirs);
    expect(read(file)).toEqual(ours);
    expect(messages).toEqual(["system", "compactionSummary", "assistant", "user", "assistant"]);
    const types = ours.entries.map(({ type }: { type: string }) => type);
    expect(types.filter((type: string) => type !== "message")).toEqual([
      ...["model_change", "thinking_level_change", "branch_summary", "label", "session_info", "compaction"],
    ]);
    const command = join(import.meta.dirname, "../../../../scripts/espalier.mjs");
    const shown = execFileSync(process.execPath, [command, "tree", file], { encoding: "utf8" });
    for (const text of [
      "The garden",
      "What does garden.txt say?",
      "Cut the pear tree.",
      "Water the pear tree.",
    ])
      expect(shown).toContain(text);
  },
);
