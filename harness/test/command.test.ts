import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { bundledProgram } from "./bundled-program.ts";

const { program } = bundledProgram();

const run = (...words: string[]) =>
  spawnSync(process.execPath, [program, ...words], { encoding: "utf8", timeout: 60_000 });

test("a trial that was run prints one line of JSON", () => {
  const { stdout, status } = run("power", "--short", "--seed", "7", "--count", "2");
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    harness: "power",
    store: "file",
    seed: 7,
    short: true,
    figures: { cuts: 2 },
    faults: [],
  });
});

test("what cannot be understood is no trial that passes", () => {
  for (const words of [
    [],
    ["nothing"],
    ["constructor"],
    ["power", "lease"],
    ["power", "--count", "many"],
    ["power", "--seed", "-1"],
    ["power", "--store", "none"],
    ["power", "--fast"],
  ]) {
    const { stdout, stderr, status } = run(...words);
    expect([words, status, stdout]).toEqual([words, 2, ""]);
    expect(stderr).toMatch(/^Usage: npm run harness -- <kill\|/);
  }
});
