import { chmodSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { openSession } from "@espalier/engine";
import picocolors from "picocolors";
import stringWidth from "string-width";
import { expect, test } from "vitest";
import { viewStep } from "../src/commands/tree.ts";
import {
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";

test("replay prints each step: the entry, the leaf, the size of the context", async () => {
  const { code, values } = await espalierJson(["replay", DEMO]);
  expect(code).toBe(0);
  expect(values).toHaveLength(212);
  expect(values[14]).toEqual({
    seq: 15,
    entryId: "HRgcbpEZgD21",
    type: "session_info",
    leafId: "vPdDiWYGH0ya",
    contextMessages: 12,
    contextTokens: 3_857,
  });
  expect(values.at(-1)).toMatchObject({ leafId: "2ur7kch3b1oZ", contextMessages: 62, contextTokens: 12_234 });
});

test("a step of a replay counts one message as one", async () => {
  const { stdout } = await espalier(["replay", DEMO]);
  const lines = stdout.split("\n");
  expect(lines[2]).toMatch(/message +1 message +74 tokens {2}/);
  expect(lines[3]).toMatch(/message +2 messages +155 tokens {2}/);
});

test("a step of a replay that moves the leaf names the new leaf once", async () => {
  const { stdout } = await espalier(["replay", DEMO]);
  expect(stdout).toMatch(/ leaf {5,}\d+ messages .* tokens {2}leaf 2ur7kch3b1oZ\n/);
});

test("a step of a replay names entries so that they can be shown, also by ids of other agents", async () => {
  const [one, other] = ["6c5e9e33-b45b-4653-ac03-43b3787fe2cc", "6c5e9e33-0b45-4653-ac03-43b3787fe2cc"];
  const leaf = { type: "leaf", id: "moved", parentId: other, targetId: one, timestamp: HEADER.timestamp };
  const file = sessionOf(HEADER, said(one, null, "one"), said(other, one, "two"), leaf);
  const { stdout } = await espalier(["replay", file]);
  expect(stdout.match(/(?<=^ +\d )\S+/gm)).toEqual(["6c5e9e33-b", "6c5e9e33-0", "moved"]);
  expect(stdout).toContain("leaf 6c5e9e33-b");
  expect((await espalierJson(["show", file, "6c5e9e33-b"])).value.id).toBe(one);
});

test("ids that begin alike for more than 12 characters are printed as long as they are unique", async () => {
  const ids = ["1", "2"].map((digit) => `019a1b2c-3d4e-700${digit}-9f00-43b3787fe2cc`) as [string, string];
  const file = sessionOf(HEADER, said(ids[0], null, "one"), said(ids[1], ids[0], "two"));
  for (const command of [["replay"], ["tree", "--all"]]) {
    const { stdout } = await espalier([...command, file]);
    expect(stdout.match(/019a1b2c\S+(?= )/g)).toEqual(["019a1b2c-3d4e-7001", "019a1b2c-3d4e-7002"]);
  }
});

test("a step of a replay is one line of a terminal, whatever the ids and types", async () => {
  const long = "x".repeat(40);
  const file = sessionOf(HEADER, said(long, null, "one ".repeat(100)), {
    ...{ type: `${long}\u001b[2J`, id: "e2", parentId: long, timestamp: HEADER.timestamp },
  });
  for (const path of [DEMO, file]) {
    const session = await openSession({ file: path }, { mode: "read" });
    for (const step of session.replay({})) {
      const line = viewStep(session, step, { colours: picocolors.createColors(false), columns: 100 });
      expect(stringWidth(line)).toBeLessThanOrEqual(100);
      expect(line).not.toContain("\u001b");
    }
    await session.close();
  }
});

test("replay --verify finds each step equal to a context built from scratch", async () => {
  const { code, values } = await espalierJson(["replay", DEMO, "--verify", "--until", "checkpoint"]);
  expect(code).toBe(0);
  expect(values.at(-1)).toMatchObject({ entryId: "4Nk83a3KYo7N", verified: true });
  expect(values.every(({ verified }) => verified === true)).toBe(true);
  const people = await espalier(["replay", DEMO, "--verify"]);
  expect(people.stdout.trimEnd()).toMatch(/\n212 steps, each equal to a context built from scratch\.$/);
});

test("replay --speed keeps the recorded pace, times this factor", async () => {
  const at = (seconds: number) => `2026-01-01T00:00:${String(seconds).padStart(2, "0")}.000Z`;
  const file = sessionOf(
    HEADER,
    { ...said("e1", null, "one"), timestamp: at(0) },
    { ...said("e2", "e1", "two"), timestamp: at(8) },
  );
  const begun = Date.now();
  await espalier(["replay", file, "--speed", "10"]);
  expect(Date.now() - begun).toBeGreaterThanOrEqual(800);
});

test("list describes each session below a folder, newest first", async () => {
  const file = demoCopy();
  utimesSync(file, new Date(), new Date(Date.now() - 3 * 86_400_000));
  const { values } = await espalierJson(["list", dirname(file)]);
  expect(values).toEqual([
    {
      id: "LTfrBGnUynOG",
      file,
      agent: "espalier",
      cwd: "/home/ada/tidepool",
      name: "tidepool works offline 🌊",
      firstMessage: expect.stringMatching(/^I maintain tidepool/),
      modified: expect.stringMatching(/Z$/),
      updatedAt: "2026-03-08T17:16:37.087Z",
      lastCompaction: "2026-03-08T16:31:35.000Z",
      bytes: expect.any(Number),
    },
  ]);
  const { stdout } = await espalier(["list", dirname(file)]);
  expect(stdout).toMatch(
    /^id +updated +agent +project +session\nLTfrBGnUynOG +2026-03-\d\d +espalier +tidepool +tidepool works offline/,
  );
});

test("sub-agents are listed on request, also by the session that started them", async () => {
  const env = { ESPALIER_HOME: temporaryFolder() };
  const folder = join(env.ESPALIER_HOME, "sessions/garden");
  mkdirSync(folder, { recursive: true });
  const fileOf = (id: string) => join(folder, `2026-01-01_${id}.jsonl`);
  const write = (id: string, kind?: string) => {
    const parent = kind === undefined ? {} : { parent: { sessionId: "main0001", entryId: "e1", kind } };
    const lines = [{ ...HEADER, id, ...parent }, said(`e-${id}`, null, `said in ${id}`)];
    writeFileSync(fileOf(id), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  };
  write("main0001");
  write("fork0001", "fork");
  write("work0001", "subagent");
  const listed = async (...parameters: string[]) =>
    (await espalierJson(["list", ...parameters], { env })).values.map(({ id }) => id).sort();
  expect(await listed()).toEqual(["fork0001", "main0001"]);
  expect(await listed("--sub-agents")).toEqual(["fork0001", "main0001", "work0001"]);
  expect(await listed("--parent", "main")).toEqual(["fork0001", "work0001"]);
  // They outlive the session, and who deletes it is told of them.
  const { value } = await espalierJson(["delete", "main0001", "--yes"], { env });
  expect(value.orphans.sort()).toEqual([fileOf("fork0001"), fileOf("work0001")]);
  expect(await listed("--parent", "main0001")).toEqual(["fork0001", "work0001"]);
  expect((await espalierJson(["tree", "work0001"], { env })).value.entries).toHaveLength(1);
});

test("doctor finds nothing in a sound session, and reports line and offset of faults in another", async () => {
  const sound = await espalierJson(["doctor", DEMO]);
  expect(sound).toMatchObject({ code: 0, value: { ok: true, entries: 212, issues: [] } });
  const header = JSON.stringify(HEADER);
  const file = sessionOf(header, said("e1", null, "one"), "not json", said("e2", "nobody", "two"));
  const { code, value } = await espalierJson(["doctor", file]);
  expect(code).toBe(1);
  expect(value).toMatchObject({ ok: false, entries: 2 });
  const bad = `${header}\n${JSON.stringify(said("e1", null, "one"))}\n`.length;
  expect(value.issues).toEqual([
    { kind: "corrupt", line: 3, offset: bad, id: null, message: expect.any(String) },
    { kind: "orphan", line: 4, offset: bad + "not json\n".length, id: "e2", message: expect.any(String) },
  ]);
  const people = await espalier(["doctor", file]);
  expect(people.stdout).toMatch(/^corrupt +line 3, byte \d+ /);
  expect(people.stdout).toMatch(/\n2 entries can be used; 2 issues\.\n$/);
  expect(people.stdout).toContain("The line is not valid JSON: 8 bytes are lost.");
  expect(people.stderr).toContain(`\`espalier doctor ${file} --repair <file>\``);
});

test("doctor aligns its issues, and counts their bytes as all figures", async () => {
  const long = "x".repeat(1_234);
  const file = sessionOf(HEADER, long, said("e1", null, "one"), said("e1", null, "one"), "x");
  const { stdout } = await espalier(["doctor", file]);
  const issues = stdout.split("\n").slice(0, 3);
  expect(issues[0]).toMatch(/The line is not valid JSON: 1,234 bytes are lost\.$/);
  expect(issues[2]).toMatch(/The line is not valid JSON: 1 byte is lost\.$/);
  for (const word of [/line \d/, /The line|e1: The line/])
    expect(new Set(issues.map((issue) => issue.search(word))).size, String(word)).toBe(1);
});

test("a session without its header is listed by the name of its file", async () => {
  const file = sessionOf("not json", { ...said("e1", null, ""), type: "custom", customType: "mark" });
  const { stdout } = await espalier(["list", dirname(file)]);
  expect(stdout).toContain(basename(file));
});

test("doctor warns when other users of the machine can read a session", async () => {
  const file = sessionOf(HEADER, said("e1", null, "one"));
  chmodSync(dirname(file), 0o755);
  chmodSync(file, 0o644);
  const loose = await espalierJson(["doctor", file]);
  expect(loose).toMatchObject({ code: 0, value: { ok: true, issues: [] } });
  expect(loose.stderr).toContain("`chmod 600`");
  chmodSync(file, 0o600);
  expect((await espalierJson(["doctor", file])).stderr).toBe("");
});

test("doctor --repair writes a repaired copy and a report, and does not change the session", async () => {
  const file = sessionOf(HEADER, said("e1", null, "one"), "not json", said("e2", "e1", "two"));
  const before = stateOf(file);
  const repaired = file.replace("session", "repaired");
  const { code, value } = await espalierJson(["doctor", file, "--repair", repaired]);
  expect(code).toBe(0);
  expect(value).toMatchObject({ file: repaired, report: `${repaired}.repair.json`, ok: true, entries: 2 });
  expect(stateOf(file)).toBe(before);
  expect(await espalierJson(["doctor", repaired])).toMatchObject({
    code: 0,
    value: { ok: true, entries: 2 },
  });
  const again = await espalierJson(["doctor", file, "--repair", repaired]);
  expect(again).toMatchObject({ code: 1, value: { error: { code: "exists" } } });
});
