import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { SessionManager } from "../../src/adapters/pi.ts";
import { play, tell } from "./pi/play.ts";

/** The newest version that its registry has whole; it needs a newer Node than this project. */
const PACKAGES = ["node@24", "@earendil-works/pi-coding-agent@0.87.1"];
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

/** What the real Pi answers; undefined where npx cannot have it. */
function realPi(question: object): { played: ReturnType<typeof play>[]; read: unknown[] } | undefined {
  const [input, output] = [join(folder, "question.json"), join(folder, "answer.json")];
  writeFileSync(input, JSON.stringify({ folder: join(folder, "theirs"), ...question }));
  const program = join(import.meta.dirname, "pi/real.ts");
  const packages = PACKAGES.flatMap((name) => ["-p", name]);
  try {
    execFileSync("npx", ["--yes", ...packages, "node", program, input, output], {
      stdio: "pipe",
      timeout: 280_000,
    });
  } catch (error) {
    const said = String((error as { stderr?: unknown }).stderr);
    if (/(real|play)\.ts/.test(said)) throw error;
    return undefined;
  }
  return JSON.parse(readFileSync(output, "utf8"));
}

// One seed: a sequence that fails is a fault, not bad luck of a run. Another one is a number away.
const SEED = 23;

test("200 random sequences do on ours what they do on Pi, and each reads the files of the other", {
  timeout: 600_000,
}, (context) => {
  const sequences = fc.sample(fc.array(call, { minLength: 1, maxLength: 40 }), { numRuns: 200, seed: SEED });
  const theirs = realPi({ sequences });
  if (!theirs) return context.skip("Pi or Node 24 cannot be had by npx here.");
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
  expect(realPi({ files })?.read).toEqual(files.map(read));
});

function read(file: string): unknown {
  using session = SessionManager.open<SessionManager>(file);
  return tell(session);
}
