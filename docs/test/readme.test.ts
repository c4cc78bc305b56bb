import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { desk, fencesOf, ROOT } from "./desk.ts";

const example = (name: string) => readFileSync(join(ROOT, "examples/readme", name), "utf8");
const shown = fencesOf(join(ROOT, "README.md")).map(({ text }) => text);

test.each(["an-agent.ts", "an-extension.ts", "a-reader.sh"])("the README shows %s unchanged", (name) => {
  expect(shown).toContain(example(name));
});

test("its agent runs", async () => {
  expect((await desk()).run(example("an-agent.ts"))).toContain("What does this repository do?");
});

test("its extension vetoes and reacts to compactions as described", async () => {
  const here = await desk();
  here.put("an-extension.ts", example("an-extension.ts"));
  const compact = "espalier compact session.jsonl --keep-recent 4000 --extension an-extension.ts 2>&1";
  expect(here.type(compact)).toMatch(/\d+ tokens are a summary now\./);
  const short = "head -8 session.jsonl > short.jsonl; espalier compact short.jsonl --keep-recent 1";
  expect(here.type(`${short} --extension an-extension.ts 2>&1 || true`)).toContain(
    "hardly anything to compact",
  );
}, 120_000);

test("its commands work as described, one after the other", async () => {
  const told = (await desk()).type(example("a-reader.sh"));
  expect(told).toContain("[checkpoint]");
  expect(told).not.toContain("Nothing was found.");
}, 120_000);
