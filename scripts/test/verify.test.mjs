import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { root } from "../tools.mjs";
import { report, runCheck } from "../verify/checks.mjs";

const folder = mkdtempSync(join(tmpdir(), "espalier-verify-test-"));
/** @type {string[]} */
let printed = [];
beforeEach(() => {
  printed = [];
  vi.spyOn(console, "log").mockImplementation((line) => printed.push(...line.split("\n")));
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(() => rmSync(folder, { recursive: true }));

function script(name, text) {
  writeFileSync(join(folder, name), text);
  return `node ${join(folder, name)}`;
}

test("a check that ends with 0 has passed and prints only its line", async () => {
  const command = script("fine.mjs", `console.log("all is well");`);
  expect(await runCheck({ name: "fine", command, minutes: 1 })).toMatchObject({
    passed: 1,
    failed: 0,
    skipped: [],
  });
  expect(printed).toEqual([expect.stringMatching(/^passed +\d+\.\d s {2}fine$/)]);
});

test("a check that ends otherwise has failed and prints its output", async () => {
  const command = script("broken.mjs", `console.log("line 1"); console.error("line 2"); process.exit(3);`);
  expect(await runCheck({ name: "broken", command, minutes: 1 })).toMatchObject({ passed: 0, failed: 1 });
  expect(printed[0]).toMatch(/^failed +\d+\.\d s {2}broken$/);
  expect(printed.slice(1)).toEqual([
    `    $ ${command}`,
    "    line 1",
    "    line 2",
    "    It ended with exit code 3.",
  ]);
});

test("a long output keeps its beginning and its end", async () => {
  const command = script(
    "long.mjs",
    `for (let n = 1; n <= 1000; n += 1) console.log("line", n); process.exitCode = 1;`,
  );
  await runCheck({ name: "long", command, minutes: 1 });
  expect(printed.length).toBeLessThan(200);
  expect(printed).toEqual(
    expect.arrayContaining(["    line 1", "    line 1000", "    … 850 lines left out"]),
  );
});

test("a check that hangs, dies or cannot start has failed", async () => {
  const hanging = script(
    "hanging.mjs",
    `import { spawn } from "node:child_process"; spawn("sleep", ["60"], { stdio: "inherit" }); setInterval(() => {}, 1000);`,
  );
  expect(await runCheck({ name: "hanging", command: hanging, minutes: 0.005 })).toMatchObject({ failed: 1 });
  expect(printed).toContain("    It was stopped after 0.005 minutes.");
  const dying = script("dying.mjs", `process.kill(process.pid, "SIGTERM"); setInterval(() => {}, 1000);`);
  expect(await runCheck({ name: "dying", command: dying, minutes: 1 })).toMatchObject({ failed: 1 });
  expect(printed).toContain("    It was ended by SIGTERM.");
  expect(await runCheck({ name: "absent", command: "no-such-program", minutes: 1 })).toMatchObject({
    failed: 1,
  });
  expect(printed.join("\n")).toMatch(/It could not start: .*no-such-program/);
});

test("a check of many tests without a counted failure but with a bad exit code has failed", async () => {
  const command = script(
    "counting.mjs",
    `import { writeFileSync } from "node:fs";
writeFileSync(process.env.VERIFY_COUNTS, JSON.stringify({ passed: 7, failed: 0, skipped: [] }));
process.exit(1);`,
  );
  expect(await runCheck({ name: "counting", command, minutes: 1 })).toMatchObject({ passed: 7, failed: 1 });
});

test("vitest's tests are counted one by one, and skipped ones with their reasons", () => {
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  script(
    "counted.test.mjs",
    `import { beforeAll, describe, expect, test } from "vitest";
test("passes", () => {});
test("fails", () => expect(1).toBe(2));
test("has no disk", (context) => context.skip("there is no second disk"));
test.skip("rests", () => {});
test.todo("comes later");
describe.skip("a second disk (skipped: none here)", () => test("is full", () => {}));
describe("a suite whose hook fails", () => {
  beforeAll(() => { throw new Error("no"); });
  test("never runs", () => {});
});`,
  );
  script("unloadable.test.mjs", `throw new Error("no");`);
  const counts = join(folder, "counts.json");
  const options = ["run", "--root", folder, `--reporter=${join(root, "scripts/verify/count-reporter.mjs")}`];
  spawnSync(join(root, "node_modules/.bin/vitest"), options, {
    env: { ...process.env, VERIFY_COUNTS: counts },
  });
  const { passed, failed, skipped } = JSON.parse(readFileSync(counts, "utf8"));
  // Failed are a test, a hook and a file; vitest itself skips the test behind the hook.
  expect({ passed, failed }).toEqual({ passed: 1, failed: 3 });
  expect(skipped.map(({ name, reason }) => [name.replace(/.* > /, ""), reason])).toEqual([
    ["has no disk", "there is no second disk"],
    ["rests", "no reason given"],
    ["comes later", "no reason given"],
    ["is full", "none here"],
    ["never runs", "no reason given"],
  ]);
});

test("the last line counts passed, failed and skipped tests, and is separate", () => {
  const fine = { name: "fine", seconds: 1, passed: 12, failed: 0, skipped: [] };
  expect(report([fine])).toBe(0);
  expect(printed.slice(-2)).toEqual(["", "12 passed, 0 failed"]);
  const skipped = [{ name: "a > b", reason: "there is no second disk" }];
  expect(report([fine, { ...fine, name: "poor", passed: 1, failed: 2, skipped }])).toBe(1);
  expect(printed.slice(-6)).toEqual([
    "skipped: there is no second disk",
    "    a > b",
    "failed: poor",
    "2 checks in 2 s",
    "",
    "13 passed, 2 failed, 1 skipped",
  ]);
});
