import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type ImportReport, importChanged, importSessions } from "@espalier/interop/node";
import { SessionTree } from "@espalier/session-tree";
import { fileStore, takeFileLease } from "@espalier/session-tree/node";
import { describe, expect, test } from "vitest";
import { type Line, SESSION, user } from "./claude-code-lines.ts";
import { scratchFolder, writeLines } from "./import-scratch.ts";

/** A home in which Claude Code worked in two projects. */
function machine() {
  const home = scratchFolder();
  const projects = join(home, ".claude", "projects");
  const [one, two] = ["one", "two"].map((name) => {
    const id = `${name === "one" ? "1" : "2"}${SESSION.slice(1)}`;
    mkdirSync(join(projects, name), { recursive: true });
    const file = join(projects, name, `${id}.jsonl`);
    writeLines(file, [{ ...user("u1", null, "first"), sessionId: id }]);
    return file;
  }) as [string, string];
  const store = fileStore({ home: join(home, ".espalier") });
  return { one, two, store, env: { HOME: home }, record: join(home, ".espalier", "imported.json") };
}

async function reportsOf(imports: AsyncIterable<ImportReport>): Promise<string[]> {
  const reports: string[] = [];
  for await (const { status } of imports) reports.push(status);
  return reports;
}

const line = (value: Line): string => `${JSON.stringify(value)}\n`;

describe("an import of changed files", () => {
  test("reads a file once, and again when it has grown", async () => {
    const { one, ...options } = machine();
    expect(await reportsOf(importChanged(options))).toEqual(["created", "created"]);
    expect(await reportsOf(importChanged(options))).toEqual([]);
    appendFileSync(one, line(user("u2", "u1", "second")));
    expect(await reportsOf(importChanged(options))).toEqual(["updated"]);
    expect(await reportsOf(importChanged(options))).toEqual([]);
    utimesSync(one, new Date(), new Date(2026, 1, 1));
    expect(await reportsOf(importChanged(options))).toEqual(["unchanged"]);
  });

  test("starts with the newest files, or with requested ones", async () => {
    const { one, two, ...options } = machine();
    utimesSync(one, new Date(2026, 1, 2), new Date(2026, 1, 2));
    utimesSync(two, new Date(2026, 1, 3), new Date(2026, 1, 3));
    const sources: string[] = [];
    const isWanted = (path: string) => path === one;
    for await (const { source } of importChanged({ ...options, isWanted })) sources.push(source);
    expect(sources).toEqual([one]);
    for await (const { source } of importChanged(options)) sources.push(source);
    expect(sources).toEqual([one, two]);
    rmSync(options.record);
    sources.length = 0;
    for await (const { source } of importChanged(options)) sources.push(source);
    expect(sources).toEqual([two, one]);
  });

  test("that was interrupted continues where it stopped", async () => {
    const options = machine();
    for await (const { status } of importChanged(options)) {
      expect(status).toBe("created");
      break;
    }
    expect((await reportsOf(importChanged(options))).toSorted()).toContain("created");
    expect(await reportsOf(importChanged(options))).toEqual([]);
  });

  test("reads everything without a record, and nothing while another process imports", async () => {
    const options = machine();
    await reportsOf(importChanged(options));
    for (const text of ["", "{", "[]", "null", '{"a":1}']) {
      writeFileSync(options.record, text);
      expect(await reportsOf(importChanged(options)), text).toEqual(["unchanged", "unchanged"]);
    }
    writeFileSync(options.record, "{}");
    const lease = await takeFileLease(options.record);
    await expect(reportsOf(importChanged(options))).rejects.toMatchObject({ code: "busy" });
    await lease.release();
    expect(await reportsOf(importChanged(options))).toEqual(["unchanged", "unchanged"]);
  });

  test("on a machine without these agents does nothing, and writes nothing", async () => {
    const home = scratchFolder();
    const store = fileStore({ home: join(home, ".espalier") });
    const record = join(home, ".espalier", "imported.json");
    expect(await reportsOf(importChanged({ store, env: { HOME: home }, record }))).toEqual([]);
    expect(existsSync(record)).toBe(false);
  });
});

test("and simultaneous imports of one growing session write each entry once", async () => {
  const { one, store } = machine();
  let count = 1;
  for (let round = 0; round < 6; round++) {
    await Promise.all(Array.from({ length: 5 }, () => reportsOf(importSessions(one, { store }))));
    for (let more = 0; more < 3; more++, count++)
      appendFileSync(one, line({ ...user(`u${count + 1}`, `u${count}`, "more"), sessionId: idOf(one) }));
  }
  const reports = await reportsOf(importSessions(one, { store }));
  expect(reports).toEqual(["updated"]);
  const log = await store.open({ id: idOf(one) }, "read");
  const tree = await (await SessionTree.open(log)).load();
  expect(tree.issues).toEqual([]);
  const ids = readFileSync(log.ref, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((each) => JSON.parse(each).id);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.filter((id) => /^u\d+$/.test(id))).toHaveLength(count);
  await log.close();
});

const idOf = (file: string): string => /([\w-]+)\.jsonl$/.exec(file)![1]!;
