import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type AgentOptions, listFilesTool, readFileTool, searchTextTool, type Tool } from "@espalier/agent";
import { scriptedModel } from "@espalier/agent/testing";
import type { Session } from "@espalier/engine";
import { messageText } from "@espalier/session-tree";
import { expect, test } from "vitest";
import { stage, workingFolder } from "./stage.ts";

const contextIn = (cwd: string) => ({ cwd, signal: new AbortController().signal });

test("tools read nothing outside the given folders, through any path or link", async () => {
  const cwd = workingFolder();
  const outside = workingFolder();
  writeFileSync(join(outside, "secret.txt"), "the key is under the pot\n");
  symlinkSync(join(outside, "secret.txt"), join(cwd, "link.txt"));
  symlinkSync(outside, join(cwd, "linked"));
  const context = contextIn(cwd);
  const read = readFileTool([cwd]);
  const ways = [
    "link.txt",
    "linked/secret.txt",
    join(outside, "secret.txt"),
    `../${outside.split("/").at(-1)}/secret.txt`,
    "/etc/passwd",
  ];
  for (const path of ways)
    await expect(read.run({ path }, context), path).rejects.toThrow("outside the working folder");
  for (const path of ["..", dirname(cwd), "linked"]) {
    await expect(listFilesTool([cwd]).run({ path }, context), path).rejects.toThrow(
      "outside the working folder",
    );
    await expect(searchTextTool([cwd]).run({ text: "key", path }, context), path).rejects.toThrow(
      "outside the working folder",
    );
  }
  expect(await searchTextTool([cwd]).run({ text: "the key" }, context)).toBe('No line contains "the key".');
  expect(await read.run({ path: "garden/../garden/notes.txt" }, context)).toContain("The pears are ripe.");
  expect(await read.run({ path: join(outside, "secret.txt") }, context).catch(() => "refused")).toBe(
    "refused",
  );
  expect(await readFileTool([cwd, outside]).run({ path: join(outside, "secret.txt") }, context)).toContain(
    "pot",
  );
});

test("search results have paths relative to the working folder, also through a link", async () => {
  const real = workingFolder();
  const cwd = join(workingFolder(), "work");
  symlinkSync(real, cwd);
  const found = await searchTextTool([cwd]).run({ text: "PEARS" }, contextIn(cwd));
  expect(found).toBe("garden/notes.txt:1: The pears are ripe.");
});

const isRoot = process.getuid?.() === 0;
const whySkipped = isRoot ? " (skipped: root may read everything)" : "";

test.skipIf(isRoot)(`a search reports unreadable files, and continues${whySkipped}`, async () => {
  const cwd = workingFolder();
  writeFileSync(join(cwd, "closed.txt"), "The pears are hidden.\n", { mode: 0 });
  mkdirSync(join(cwd, "closed"), { mode: 0 });
  const found = await searchTextTool([cwd]).run({ text: "pears" }, contextIn(cwd));
  expect(found).toBe("garden/notes.txt:1: The pears are ripe.\n[2 files or folders could not be read]");
});

test("a long file is read in parts, and a folder is refused as a file", async () => {
  const cwd = workingFolder();
  writeFileSync(join(cwd, "long.txt"), Array.from({ length: 5 }, (_, at) => `line ${at + 1}`).join("\n"));
  const read = readFileTool([cwd]);
  expect(await read.run({ path: "long.txt", offset: 2, limit: 2 }, contextIn(cwd))).toBe(
    "2\tline 2\n3\tline 3\n[2 more lines; continue with offset 4]",
  );
  await expect(read.run({ path: "garden" }, contextIn(cwd))).rejects.toThrow("list_files");
  await expect(read.run({ path: "nothing" }, contextIn(cwd))).rejects.toThrow("no file or folder nothing");
});

test("one call reads at most 2,000 lines or 50 KiB, and at least one line, so that a file is read to its end", async () => {
  const cwd = workingFolder();
  const read = readFileTool([cwd]);
  const readAll = async (path: string) => {
    const texts: string[] = [];
    for (let offset = 1; ; ) {
      const text = String(await read.run({ path, offset, limit: 1_000_000 }, contextIn(cwd)));
      texts.push(text);
      const next = /\[[\d,]+ more lines?; continue with offset (\d+)\]$/.exec(text);
      if (!next) return texts;
      offset = Number(next[1]);
    }
  };
  const numbered = (count: number, line: string) => Array.from({ length: count }, () => line).join("\n");
  writeFileSync(join(cwd, "many.txt"), numbered(4_500, "a"));
  expect((await readAll("many.txt")).map((text) => text.split("\n").length)).toEqual([2_001, 2_001, 500]);
  writeFileSync(join(cwd, "wide.txt"), numbered(3, "ä".repeat(15_000)));
  expect((await readAll("wide.txt")).map((text) => text.length)).toEqual([15_041, 15_040, 15_002]);
  writeFileSync(join(cwd, "one.json"), numbered(2, "b".repeat(60_000)));
  expect((await readAll("one.json")).map((text) => text.length > 60_000)).toEqual([true, true]);
});

test("a listed folder marks its subfolders, and an empty one is reported as empty", async () => {
  const cwd = workingFolder();
  mkdirSync(join(cwd, "empty"));
  const list = listFilesTool([cwd]);
  expect(await list.run({}, contextIn(cwd))).toBe("empty/\ngarden/");
  expect(await list.run({ path: "empty" }, contextIn(cwd))).toBe("(empty)");
  await expect(list.run({ path: "garden/notes.txt" }, contextIn(cwd))).rejects.toThrow("read_file");
});

const dug: unknown[] = [];
const dig: Tool = {
  name: "dig",
  asksFirst: true,
  async run({ bed }) {
    dug.push(bed);
    return "Dug.";
  },
};
const digs = () =>
  scriptedModel([{ calls: [{ id: "c1", name: "dig", arguments: { bed: "east" } }] }, { text: "Well." }]);
const resultsOf = ({ context }: Session) =>
  context.messages.flatMap((said) => (said.role === "toolResult" ? [[messageText(said), said.isError]] : []));

test("a tool that asks first runs only if the user allows the call", async () => {
  const refused = [["The user did not allow this call.", true]];
  for (const [approve, results] of [
    [undefined, refused],
    [async () => false, refused],
    [async ({ name, arguments: given }) => name === "dig" && given["bed"] === "east", [["Dug.", false]]],
  ] satisfies [AgentOptions["approve"], unknown][]) {
    expect(dug).toEqual([]);
    const { agent, session } = await stage({ model: digs(), tools: [dig], ...(approve ? { approve } : {}) });
    await agent.run("Dig.");
    expect(resultsOf(session)).toEqual(results);
  }
  expect(dug.splice(0)).toEqual(["east"]);
});

test("an abort while the user is asked does not run the call, and ends the run", async () => {
  const { agent, session } = await stage({
    model: digs(),
    tools: [dig],
    approve: async () => {
      agent.abort();
      return new Promise<boolean>(() => {});
    },
  });
  await agent.run("Dig.");
  expect(resultsOf(session)).toEqual([["The call was not run: the user ended the turn before it.", true]]);
  expect(dug).toEqual([]);
});
