import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { diagnose, openSession, repairSession } from "@espalier/engine";
import { isDamage, type SessionContext, SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { growEntries } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(folder, { recursive: true }));

const HEADER = `{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;
const lines = (tree: string): string[] => growEntries(tree).map((entry) => JSON.stringify(entry));

let made = 0;
function written(content: string | Buffer): string {
  made += 1;
  const file = join(folder, `${made}.jsonl`);
  writeFileSync(file, content);
  return file;
}

async function repaired(content: string | Buffer) {
  const file = written(content);
  const before = readFileSync(file);
  const log = FileLog.open(file, "read");
  const original = await SessionTree.open(log);
  const report = await repairSession(log, `${file}.repaired.jsonl`);
  const copyLog = FileLog.open(report.file, "write");
  const copy = await SessionTree.open(copyLog);
  const { issues } = await diagnose(copyLog);
  expect(issues.filter(({ kind }) => kind !== "large-line")).toEqual([]);
  expect(report.ok).toBe(true);
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(JSON.parse(readFileSync(report.report, "utf8"))).toEqual(report);
  expect(sayings(copy.context)).toEqual(sayings(original.context));
  return { original, copy, report, file };
}

/** What a model reads; ids aside, which a repair may have to change. */
const sayings = ({ messages, model, thinkingLevel }: SessionContext) => ({
  messages: messages.map((said) => (said.role === "branchSummary" ? { ...said, fromId: "" } : said)),
  model,
  thinkingLevel,
});

const idsOf = (session: SessionTree) => [...session.tree.entries()].map(({ id }) => id);

test("a valid session is copied line by line", async () => {
  const content = [HEADER, ...lines('u1 > a1 > u2 > a2; a1 > u3 > l1(u3 "x")'), ""].join("\n");
  const { report } = await repaired(content);
  expect(readFileSync(report.file, "utf8")).toBe(content);
  expect(report).toMatchObject({ issues: [], changes: [], lost: [], entries: 6 });
});

test("the copy and its report are readable only by their owner, and overwrite nothing", async () => {
  const { report, file } = await repaired(`${HEADER}\n${lines("u1").join("\n")}\n`);
  expect(statSync(report.file).mode & 0o777).toBe(0o600);
  expect(statSync(report.report).mode & 0o777).toBe(0o600);
  await expect(repairSession(FileLog.open(file, "read"), report.file)).rejects.toMatchObject({
    code: "exists",
  });
  await expect(repairSession(FileLog.open(file, "read"), file)).rejects.toMatchObject({ code: "exists" });

  const another = `${file}.another`;
  writeFileSync(`${another}.repair.json`, "mine");
  await expect(repairSession(FileLog.open(file, "read"), another)).rejects.toMatchObject({ code: "exists" });
  expect(existsSync(another)).toBe(false);
  expect(readFileSync(`${another}.repair.json`, "utf8")).toBe("mine");
});

test("a torn last line is reported by position and digest, and is not in the copy", async () => {
  const [u1, a1] = lines("u1 > a1");
  const { copy, report } = await repaired(`${HEADER}\n${u1}\n${a1!.slice(0, 40)}`);
  expect(idsOf(copy)).toEqual(["u1"]);
  expect(report.lost).toMatchObject([{ offset: HEADER.length + u1!.length + 2, length: 40 }]);
  expect(report.issues).toMatchObject([{ kind: "torn-tail", line: 3 }]);
  expect(JSON.stringify(report)).not.toContain(a1!.slice(10, 40));
});

test("an entry joined to a torn one is kept", async () => {
  const [u1, a1, u2] = lines("u1 > a1 > u2");
  const { copy, report } = await repaired(`${HEADER}\n${u1}\n${a1!.slice(0, 30)}${u2}\n`);
  expect(idsOf(copy)).toEqual(["u1", "u2"]);
  expect(report.lost).toMatchObject([{ length: 30 }]);
});

test("whole entries on one line are on separate lines in the copy, and nothing is lost", async () => {
  const [u1, a1, u2, a2] = lines("u1 > a1 > u2 > a2");
  const { copy, report } = await repaired(`${HEADER}${u1}\n${a1}${u2}${a2}\n`);
  expect(readFileSync(report.file, "utf8")).toBe(`${[HEADER, u1, a1, u2, a2].join("\n")}\n`);
  expect(idsOf(copy)).toEqual(["u1", "a1", "u2", "a2"]);
  expect(report).toMatchObject({ changes: [], lost: [], entries: 4 });
  expect(report.issues.map(({ kind, line, id }) => [kind, line, id])).toEqual([
    ["glued", 1, "u1"],
    ["glued", 2, "u2"],
    ["glued", 2, "a2"],
  ]);
  const { ok, entries } = await diagnose(FileLog.open(report.source, "read"));
  expect([ok, entries]).toEqual([true, 4]);
});

test("a second header, or a fragment between whole entries, loses only itself", async () => {
  const [u1, a1, u2] = lines("u1 > a1 > u2");
  const { copy, report } = await repaired(`${HEADER}\n${HEADER}${u1}\n${a1}torn${u2}\n`);
  expect(idsOf(copy)).toEqual(["u1", "a1", "u2"]);
  expect(report.lost.map(({ length }) => length)).toEqual([HEADER.length, 4]);
});

test("a partly readable line keeps its position, with its original content", async () => {
  const [u1, a1, u2] = lines("u1 > a1 > u2");
  const broken = a1!.replace('"role"', '"role');
  const { copy, report } = await repaired(`${HEADER}\n${u1}\n${broken}\n${u2}\n`);
  expect(copy.getBranch().map(({ id }) => id)).toEqual(["u1", "a1", "u2"]);
  expect(copy.getEntry("a1")).toMatchObject({ type: "custom", customType: "espalier.repaired" });
  expect(report.changes).toMatchObject([{ id: "a1", newId: null, action: "replaced" }]);
  expect(report.lost).toMatchObject([{ length: broken.length }]);
});

test("of two entries with one id, one gets a new id, and their descendants keep their parent", async () => {
  const [u1, a1, u2, a2] = lines("u1 > a1 > u2 > a2");
  const second = a1!.replace('"id":"a1"', '"id":"u1"').replace('"parentId":"u1"', '"parentId":null');
  const below = u2!.replace('"parentId":"a1"', '"parentId":"u1"');
  const { copy, report } = await repaired(`${HEADER}\n${u1}\n${second}\n${below}\n${a2}\n`);
  const renamed = report.changes.find(({ newId }) => newId !== null)!;
  expect(renamed).toMatchObject({ id: "u1", action: "rewritten" });
  expect(copy.getEntry("u2")!.parentId).toBe(renamed.newId);
  expect(idsOf(copy)).toEqual(["u1", renamed.newId, "u2", "a2"]);
});

test("an orphan becomes a root", async () => {
  const [, a1, u2] = lines("u1 > a1 > u2");
  const { copy } = await repaired(`${HEADER}\n${a1}\n${u2}\n`);
  expect(copy.getEntry("a1")!.parentId).toBe(null);
  expect(copy.leafId).toBe("u2");
});

test("a session without a header gets one, and can be written again", async () => {
  const { copy } = await repaired(`${lines("u1 > a1").join("\n")}\n`);
  expect(copy.header).toMatchObject({ version: 3, type: "session" });
  expect(copy.id).not.toBe("");
  await copy.append({ type: "custom", customType: "test" } as never);
});

test("a label or leaf with an unknown target is left out, and the leaf stays", async () => {
  const content = [HEADER, ...lines("u1 > a1 > u2"), ""].join("\n");
  const at = { parentId: "u2", timestamp: "2026-01-01T00:00:09.000Z" };
  const label = JSON.stringify({ type: "label", id: "l1", targetId: "nobody", label: "x", ...at });
  const leaf = JSON.stringify({ type: "leaf", id: "f1", targetId: "nobody", ...at, parentId: "nobody" });
  const { copy, report } = await repaired(`${content}${label}\n${leaf}\n`);
  expect(idsOf(copy)).toEqual(["u1", "a1", "u2"]);
  expect(report.changes.map(({ action }) => action)).toEqual(["left-out", "left-out"]);
});

test("a compaction with an unknown first kept entry still has no effect", async () => {
  const [u1, a1, k1, u2] = lines("u1 > a1 > k1(a1) > u2");
  const { copy } = await repaired(
    `${HEADER}\n${u1}\n${a1}\n${k1!.replace('"firstKeptEntryId":"a1"', '"firstKeptEntryId":"gone"')}\n${u2}\n`,
  );
  expect(copy.getBranch().map(({ id }) => id)).toEqual(["u1", "a1", "k1", "u2"]);
});

test("a session of a newer format is not changed", async () => {
  const file = written(`${HEADER.replace('"version":3', '"version":4')}\n`);
  await expect(repairSession(FileLog.open(file, "read"), `${file}.out`)).rejects.toMatchObject({
    code: "version",
  });
  expect(existsSync(`${file}.out`)).toBe(false);
});

test("after any damage of its lines, a session's copy is valid and gives the same context", async () => {
  const sound = lines(`u1 > a1 > u2 > a2 > k1(u2) > u3 > a3 > e1(u3) > u4 > l1(u2 "x") > n1("name")
    a2 > u5 > a5 > s1(u4) > u6 > a6; u1 > u7 > a7`);
  const mutation = fc.record({
    what: fc.constantFrom(
      "cut",
      "double",
      "swap",
      "rewire",
      "retarget",
      "rename",
      "mistype",
      "glue",
      "lose the newline",
      "drop",
      "same",
    ),
    at: fc.nat({ max: sound.length - 1 }),
    other: fc.nat({ max: sound.length - 1 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(mutation, { maxLength: 8 }),
      fc.boolean(),
      fc.boolean(),
      async (mutations, hasHeader, ends) => {
        let all = [...sound];
        for (const { what, at, other } of mutations)
          all = mutate(all, what, at % all.length, other % all.length);
        const content = `${[...(hasHeader ? [HEADER] : []), ...all].join("\n")}${ends ? "\n" : ""}`;
        const log = FileLog.open(written(content), "read");
        const isSession = await SessionTree.open(log).then(
          () => true,
          () => false,
        );
        if (!isSession) return;
        const { report } = await repaired(content);
        expect(report.issues.filter(isDamage).length > 0 || report.changes.length === 0).toBe(true);
      },
    ),
    {
      numRuns: 150,
      examples: [
        // Two entries have the id that a compaction keeps from, and the nearer one is on another path.
        [
          [
            { what: "rename", at: 5, other: 2 },
            { what: "drop", at: 6, other: 0 },
            { what: "swap", at: 4, other: 16 },
          ],
          false,
          false,
        ],
      ],
    },
  );
});

function mutate(all: string[], what: string, at: number, other: number): string[] {
  const line = all[at]!;
  const idOf = (text: string) => /"id":"([^"]*)"/.exec(text)?.[1] ?? "x";
  const put = (...replaced: string[]) => [...all.slice(0, at), ...replaced, ...all.slice(at + 1)];
  if (what === "cut") return put(line.slice(0, (other * 13) % (line.length + 1)));
  if (what === "double") return [...all.slice(0, other), line, ...all.slice(other)];
  if (what === "swap") return all.map((each, i) => (i === at ? all[other]! : i === other ? line : each));
  if (what === "rewire")
    return put(line.replace(/"parentId":("[^"]*"|null)/, `"parentId":"${idOf(all[other]!)}"`));
  if (what === "retarget")
    return put(line.replace(/"(targetId|firstKeptEntryId|fromId)":"[^"]*"/, `"$1":"${idOf(all[other]!)}"`));
  if (what === "rename") return put(line.replace(/"id":"[^"]*"/, `"id":"${idOf(all[other]!)}"`));
  if (what === "mistype") return put(line.replace(/"(content|summary|message|targetId)":/, '"$1":5,"_":'));
  if (what === "glue") return put(`${line.slice(0, 25)}${all[other]!}`);
  if (what === "lose the newline") return put(`${line}${all[other]!}`);
  if (what === "drop") return all.length > 1 ? put() : all;
  return all;
}

test("a real opening agrees with doctor, and the engine opens the copy", async () => {
  const { report } = await repaired(`${HEADER}\n${lines("u1 > a1").join("\n")}\n{"type":"mess`);
  const session = await openSession({ file: report.file }, { home: folder });
  expect(session.diagnose()).toEqual({ ok: true, entries: 2, issues: [] });
  await session.close();
});
