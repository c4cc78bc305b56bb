import { openSession } from "@espalier/engine";
import { expect, test } from "vitest";
import { demoCopy, espalierJson, linesOf, stateOf } from "./espalier.ts";

test("a session with another writer is not changed, unless the user chooses otherwise", async () => {
  const file = demoCopy();
  const holder = await openSession({ file });
  try {
    const before = stateOf(file);
    const refused = await espalierJson(["navigate", file, "before-cache"]);
    expect(refused).toMatchObject({ code: 1, value: { error: { code: "busy" } } });
    const reader = await espalierJson(["navigate", file, "before-cache", "--on-busy", "read-only"]);
    expect(reader).toMatchObject({ code: 1, value: { error: { code: "read-only" } } });
    expect((await espalierJson(["tree", file])).code).toBe(0);
    expect(stateOf(file)).toBe(before);

    const stdin = '{"role":"user","content":"elsewhere"}';
    const fork = await espalierJson(["append", file, "--on-busy", "fork"], { stdin });
    expect(fork.value.file).not.toBe(file);
    expect(fork.stderr).toMatch(/^Another process writes .*; continuing with .*\.\n$/);
    expect(linesOf(fork.value.file).at(-1)).toMatchObject({ message: { content: "elsewhere" } });
    expect(stateOf(file)).toBe(before);

    const shared = await espalierJson(["append", file, "--on-busy", "share"], { stdin });
    expect(linesOf(file).at(-1)).toMatchObject({ id: shared.value.leafId });
  } finally {
    await holder.close();
  }
});

test("labels, names and pins are appended while another process writes the session", async () => {
  const file = demoCopy();
  const holder = await openSession({ file });
  try {
    const commands = [
      ["label", file, "before-cache", "x"],
      ["name", file, "x"],
      ["pin", file, "checkpoint"],
    ];
    for (const run of await Promise.all(commands.map((parameters) => espalierJson(parameters))))
      expect(run).toMatchObject({ code: 0, stderr: "" });
    // The model reads a rule as a message: on a branch beside the writer, no one would.
    const rule = await espalierJson(["rules", file, "--add", "never push"]);
    expect(rule).toMatchObject({ code: 1, value: { error: { code: "busy" } } });
  } finally {
    await holder.close();
  }
});

test("commands that write the same session at the same time wait for each other", async () => {
  const file = demoCopy();
  const texts = ["one", "two", "three", "four"];
  const runs = await Promise.all(
    texts.map((content) =>
      espalierJson(["append", file], { stdin: JSON.stringify({ role: "user", content }) }),
    ),
  );
  expect(runs.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
  const said = linesOf(file).slice(-4) as { message: { content: string } }[];
  expect(said.map(({ message }) => message.content).sort()).toEqual([...texts].sort());
});
