import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
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

test("tree --json lists the session and every entry in file order, with all fields", async () => {
  const { code, value, stderr } = await espalierJson(["tree", DEMO]);
  expect(code).toBe(0);
  expect(stderr).toBe("");
  expect(Object.keys(value)).toEqual(["session", "leafId", "entries", "issues"]);
  expect(value.session).toEqual({
    id: "LTfrBGnUynOG",
    version: 3,
    cwd: "/home/ada/tidepool",
    file: DEMO,
    name: "tidepool works offline 🌊",
  });
  expect(value.leafId).toBe("2ur7kch3b1oZ");
  const ids = readFileSync(DEMO, "utf8")
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => JSON.parse(line).id);
  expect(value.entries.map(({ id }: { id: string }) => id)).toEqual(ids);
  for (const entry of value.entries) {
    expect(Object.keys(entry)).toEqual([
      "id",
      "parentId",
      "type",
      "role",
      "timestamp",
      "label",
      "preview",
      "onPath",
      "archived",
    ]);
  }
  const byId = new Map(value.entries.map((entry: { id: string }) => [entry.id, entry]));
  expect(byId.get("vPdDiWYGH0ya")).toMatchObject({
    parentId: "O566c3bkrvqI",
    type: "message",
    role: "assistant",
    timestamp: "2026-03-07T17:04:59.816Z",
    label: "before-cache",
    onPath: true,
    archived: true,
  });
  expect(byId.get("uOjKaOrCBN2z")).toMatchObject({ type: "custom", role: null, label: null });
  expect(byId.get("3cLUh4aAMXUk")).toMatchObject({ onPath: false, archived: false });
  // A label that was taken away is none.
  expect(byId.get("4XF6BLmKNMD1")).toMatchObject({ label: null });
  expect(value.issues).toEqual([]);
});

test("archived entries are those of the path before the first kept entry of its newest compaction", async () => {
  const { value } = await espalierJson(["tree", DEMO]);
  const compaction = JSON.parse(
    readFileSync(DEMO, "utf8")
      .split("\n")
      .find((line) => line.includes('"type":"compaction"'))!,
  );
  const path = value.entries.filter(({ onPath }: { onPath: boolean }) => onPath);
  const kept = path.findIndex(({ id }: { id: string }) => id === compaction.firstKeptEntryId);
  expect(kept).toBeGreaterThan(50);
  expect(path.map(({ archived }: { archived: boolean }) => archived)).toEqual(
    path.map((_: unknown, at: number) => at < kept),
  );
});

test("tree --ids leaves out fields that need parsed lines", async () => {
  const { value } = await espalierJson(["tree", DEMO, "--ids"]);
  expect(value.entries[14]).toEqual({
    id: "HRgcbpEZgD21",
    parentId: "vPdDiWYGH0ya",
    type: "session_info",
    label: null,
    onPath: false,
    archived: false,
  });
});

test("a preview is one line of at most 100 characters without control characters", async () => {
  const file = sessionOf(
    HEADER,
    said("e1", null, `\u001b[31mred\u001b[0m\nand \u202eback\u0007 ${"é".repeat(300)}`),
    said("e2", "e1", ""),
    {
      type: "message",
      id: "e3",
      parentId: "e2",
      timestamp: "",
      message: { role: "user", content: "lone \ud83c end" },
    },
  );
  const { value } = await espalierJson(["tree", file]);
  const [first, empty, lone] = value.entries;
  expect(first.preview).toMatch(/^red and back é+…$/);
  expect(Array.from(first.preview)).toHaveLength(100);
  expect(empty.preview).toBeNull();
  expect(lone.preview).toBe("lone \ufffd end");
});

test("tree draws branches, labels, summaries and the leaf, and folds long runs", async () => {
  const { code, stdout } = await espalier(["tree", DEMO]);
  expect(code).toBe(0);
  const lines = stdout.split("\n");
  expect(lines[0]).toBe("tidepool works offline 🌊 /home/ada/tidepool");
  expect(lines[1]).toBe("212 entries · 6 branches · the model reads 62 messages, 12,234 tokens");
  expect(lines).toContain("… 10 entries");
  expect(stdout).toMatch(/^vPdDiWYGH0ya assistant {2}Nothing is changed\..*… \[before-cache\]$/m);
  expect(stdout).toMatch(/^│ {2}├─ Ng1Ocsqz18Ns user {2}Before we throw it away/m);
  expect(stdout).toMatch(/^bAP06xkp4nVl summary of 3cLUh4aAMXUk {2}Find out whether/m);
  expect(stdout).toMatch(/^nrT0ch0vvELC compaction {2}Make tidepool/m);
  // The leaf is state of an extension: the mark is at the last thing said.
  expect(stdout.trimEnd()).toMatch(/\n5jKLvJ8IUUb8 assistant .* \[ready-to-release\] \*$/);
  expect(stdout).not.toContain("\u001b");
});

test("a long title above a tree is cut with an ellipsis, before the folder", async () => {
  const { stdout } = await espalier(["tree", sessionOf(HEADER, said("e1", null, "dig ".repeat(80)))]);
  const [heading] = stdout.split("\n");
  expect(heading).toMatch(/^(?:dig ){24}\S*… \//);
});

test("tree --all has a line for every entry that can be the leaf, --ascii draws with - and |", async () => {
  const { stdout } = await espalier(["tree", DEMO, "--all", "--ascii"]);
  expect(stdout).toContain("VvN3gzZd8Vax toolResult");
  expect(stdout).toContain("\n|  +- Ng1Ocsqz18Ns");
  expect(stdout).not.toMatch(/^[^A-Za-z]*[│├─]/m);
});

test("colours are used only when they are wanted", async () => {
  const [without, forced] = await Promise.all([
    espalier(["tree", DEMO], { env: { NO_COLOR: undefined } }),
    espalier(["tree", DEMO], { env: { NO_COLOR: undefined, FORCE_COLOR: "1" } }),
  ]);
  expect(without.stdout).not.toContain("\u001b");
  expect(forced.stdout).toContain("\u001b[33m [before-cache]\u001b[39m");
});

test("text of a session cannot control the terminal", async () => {
  const nasty = "\u001b]0;owned\u0007\u001b[2J\u009b31mtext\u202e\u2066";
  const file = sessionOf(
    HEADER,
    said("e1", null, nasty),
    { type: "label", id: "l1", parentId: "e1", timestamp: "", targetId: "e1", label: nasty },
    { type: "session_info", id: "n1", parentId: "e1", timestamp: "", name: nasty },
    { type: "custom", id: "c1", parentId: "e1", timestamp: "", customType: nasty, data: nasty },
    { type: nasty, id: `t1${nasty}`, parentId: "c1", timestamp: nasty },
    said(`e2${nasty}`, `t1${nasty}`, "hello"),
  );
  const runs = await Promise.all([
    espalier(["tree", file]),
    espalier(["context", file]),
    espalier(["show", file, "e1"]),
    espalier(["show", file, "c1"]),
    espalier(["replay", file]),
    espalier(["list", file.replace(/\/[^/]*$/, "")]),
    espalier(["show", file, nasty]),
    espalier(["diff", file, "leaf", "start"]),
    espalier(["history", file, "hello"]),
    espalier(["search", "hello", file]),
    espalier(["hide", file, "leaf"]),
    espalier(["undo", file]),
    espalier(["fork", file, "leaf"]),
    ...["tree", "context", "replay"].map((command) => espalier([command, file, "--json"])),
  ]);
  for (const { stdout, stderr } of runs)
    expect(stdout + stderr).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e\u2066]/);
  for (const { stdout } of runs.slice(0, 3)) expect(stdout).toContain("text");
  // What JSON escapes is still there.
  const { value } = await espalierJson(["context", file, "--at", "e1"]);
  expect(value.messages[0].content).toBe(nasty);
});

test("read-only commands do not change bytes and times", async () => {
  const file = demoCopy();
  const before = stateOf(file);
  await Promise.all(
    [
      ["tree", file],
      ["tree", file, "--json"],
      ["context", file, "--format", "anthropic"],
      ["show", file, "leaf"],
      ["replay", file, "--verify"],
      ["doctor", file],
      ["list", file.replace(/\/[^/]*$/, "")],
      ["compact", file, "--dry-run"],
      ["fork", file, "checkpoint", "--out", file.replace("session", "fork")],
    ].map(async (parameters) => expect(await espalier(parameters)).toMatchObject({ code: 0 })),
  );
  expect(stateOf(file)).toBe(before);
});

test("a message of blocks that only a provider or an SDK knows is drawn with the types of the blocks", async () => {
  const value = { type: "tool-approval-response", approvalId: "a1", approved: true };
  const block = { type: "ai-sdk.tool-approval-response", native: { format: "ai-sdk", value } };
  const entry = { type: "message", id: "e2", parentId: "e1", timestamp: "2026-01-01T00:00:02.000Z" };
  const approval = { ...entry, message: { role: "user", content: [block], timestamp: 1 } };
  const { value: tree } = await espalierJson(["tree", sessionOf(HEADER, said("e1", null, "Dig."), approval)]);
  expect(tree.entries.map(({ preview }: { preview: string }) => preview)).toEqual([
    "Dig.",
    "(ai-sdk.tool-approval-response)",
  ]);
});

test("an entry of an extension's kind is drawn with its kind, and as data without the extension", async () => {
  const own = {
    type: "garden.weather",
    id: "w1",
    parentId: "e1",
    timestamp: "2026-01-01T00:00:02.000Z",
    degrees: 21,
  };
  const file = sessionOf(HEADER, said("e1", null, "How is it?"), own);
  const extension = join(temporaryFolder(), "weather.ts");
  writeFileSync(
    extension,
    `import { defineEntry } from "@espalier/session-tree";
export default (api: any) => api.registerKind(defineEntry("garden.weather", {
  movesLeaf: true,
  toMessages: (entry: any) => [{ role: "user", content: "It is " + entry.degrees, timestamp: 0 }],
  draw: (entry: any) => entry.degrees + " °C",
}));`,
  );
  const previews = async (...more: string[]) => {
    const { value } = await espalierJson(["tree", file, ...more]);
    return value.entries.map(({ preview }: { preview: string }) => preview);
  };
  expect(await previews("--extension", extension)).toEqual(["How is it?", "21 °C"]);
  expect(await previews()).toEqual(["How is it?", '{"degrees":21}']);
  const told = await espalierJson(["context", file, "--extension", extension]);
  expect(told.value.messages).toMatchObject([{ content: "How is it?" }, { content: "It is 21" }]);
  expect((await espalierJson(["context", file])).value.messages).toHaveLength(1);
});

test("bookkeeping of an agent is left out of a tree, and its branches stay connected", async () => {
  const reminder = (id: string, parentId: string) => ({
    type: "custom_message",
    id,
    parentId,
    timestamp: "2026-01-01T00:00:01.000Z",
    customType: "claude-code.date",
    content: "<system-reminder>Today is a day.</system-reminder>",
    display: false,
  });
  const state = (id: string, parentId: string) => ({
    type: "custom",
    id,
    parentId,
    timestamp: "2026-01-01T00:00:01.000Z",
    customType: "claude-code.cost-state",
    data: { totalCostUSD: 1 },
  });
  const file = sessionOf(
    HEADER,
    said("u1", null, "Which way is up?"),
    reminder("r1", "u1"),
    said("u2", "r1", "Left, I think."),
    said("u3", "r1", "<system-reminder>Be brief.</system-reminder>"),
    said("u4", "u3", "Right, I think."),
    state("s1", "u4"),
  );
  const { stdout } = await espalier(["tree", file]);
  expect(stdout.split("\n")).toEqual([
    "Which way is up? /project",
    expect.stringMatching(/^6 entries · 2 branches/),
    "3 entries of bookkeeping are left out; --all shows everything.",
    "",
    "u1 user  Which way is up?",
    "├─ u2 user  Left, I think.",
    "u4 user  Right, I think. *",
    "",
  ]);
  const all = await espalier(["tree", file, "--all"]);
  expect(all.stdout).toMatch(/\ns1 custom {2}claude-code\.cost-state .* \*\n$/);
  expect(all.stdout).not.toContain("left out");
  expect((await espalierJson(["tree", file])).value.entries).toHaveLength(6);
});

test("the line of a failed answer has the status and the message of the provider's error, once, and not its JSON", async () => {
  const body = { type: "error", error: { type: "invalid_request_error", message: "prompt is too long" } };
  const errorMessage = `400 ${JSON.stringify(body)}`;
  const message = { role: "assistant", content: errorMessage, stopReason: "error", errorMessage };
  const file = sessionOf(HEADER, said("u1", null, "Hello"), { ...said("a1", "u1", ""), message });
  const { stdout } = await espalier(["tree", file]);
  expect(stdout).toContain("(failed: 400 prompt is too long) *\n");
});
