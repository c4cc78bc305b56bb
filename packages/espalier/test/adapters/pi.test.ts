import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { systemProcesses, takeFileLeaseSync } from "@espalier/session-tree/node";
import { type EspalierError, openSession } from "espalier";
import {
  collectEntriesForBranchSummary,
  compact,
  DEFAULT_COMPACTION_SETTINGS,
  findCutPoint,
  migrateSessionEntries,
  parseSessionEntries,
  prepareCompaction,
  SessionManager,
  serializeConversation,
  shouldCompact,
} from "espalier/adapters/pi";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "espalier-pi-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const user = (content: string) => ({ role: "user" as const, content, timestamp: 1 });
const assistant = (text: string) => ({
  role: "assistant" as const,
  content: [{ type: "text" as const, text }],
  api: "test",
  provider: "p",
  model: "m",
  usage: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2 },
  stopReason: "stop" as const,
  timestamp: 2,
});

const create = (): SessionManager => SessionManager.create("/work", folder);
const linesOf = (file: string): string[] => readFileSync(file, "utf8").split("\n").slice(0, -1);
const codeOf = (act: () => unknown): unknown => {
  try {
    act();
  } catch (error) {
    return (error as EspalierError).code;
  }
  return undefined;
};

test("an append is in the file when it returns, and a session without messages has no file", () => {
  using session = create();
  session.appendModelChange("p", "m");
  session.appendThinkingLevelChange("high");
  expect(readdirSync(folder)).toEqual([]);
  const asked = session.appendMessage(user("What grows here?"));
  const file = session.getSessionFile()!;
  const before = readFileSync(file, "utf8");
  expect(linesOf(file).map((line) => JSON.parse(line).type)).toEqual([
    "session",
    "model_change",
    "thinking_level_change",
    "message",
  ]);
  const answered = session.appendMessage(assistant("Pears."));
  const after = readFileSync(file, "utf8");
  expect(after.startsWith(before)).toBe(true);
  expect(JSON.parse(after.slice(before.length))).toMatchObject({ id: answered, parentId: asked });
});

test("a session branched from a conversation has its file at once", () => {
  using session = create();
  const asked = session.appendMessage(user("What grows here?"));
  session.appendMessage(assistant("Pears."));
  const file = session.createBranchedSession(asked)!;
  expect(linesOf(file).map((line) => JSON.parse(line).type)).toEqual(["session", "message"]);
});

test("a manager equals its file, even if the caller changes a value, or a value is not JSON", () => {
  using session = create();
  const said = user("as it was");
  const id = session.appendMessage(said);
  said.content = "changed";
  const state = session.appendCustomEntry("state", { at: new Date(0), skip: undefined, broken: "\ud800" });
  using again = SessionManager.open<SessionManager>(session.getSessionFile()!);
  expect(again.getEntries()).toEqual(session.getEntries());
  expect(session.getEntry(id)).toMatchObject({ message: { content: "as it was" } });
  expect(session.getEntry(state)).toMatchObject({
    data: { at: "1970-01-01T00:00:00.000Z", broken: "\ufffd" },
  });
});

test("a refused append leaves the session and the file unchanged", () => {
  using session = create();
  const first = session.appendMessage(user("one"));
  session.appendMessage(assistant("two"));
  session.branch(first);
  const aside = session.appendMessage(user("aside"));
  session.branch(first);
  const before = readFileSync(session.getSessionFile()!, "utf8");
  expect(codeOf(() => session.appendCompaction("s", aside, 1))).toBe("off-path");
  expect(codeOf(() => session.appendContextEdit(aside, null))).toBe("off-path");
  expect(() => session.branch("nowhere")).toThrow("Entry nowhere not found");
  expect(() => session.appendLabelChange("nowhere", "x")).toThrow("Entry nowhere not found");
  expect(codeOf(() => session.appendMessage({} as never))).toBe("invalid-entry");
  expect(codeOf(() => session.newSession({ id: "../x" }))).toBe("bad-input");
  expect(readFileSync(session.getSessionFile()!, "utf8")).toBe(before);
  expect(session.getLeafId()).toBe(first);
});

test("a file that another process writes is refused by one sentence, and usable once it is closed", async () => {
  const session = create();
  session.appendMessage(user("one"));
  const file = session.getSessionFile()!;
  await expect(openSession({ file })).rejects.toMatchObject({ code: "busy" });
  session.close();
  expect(codeOf(() => session.appendMessage(user("late")))).toBe("closed");
  expect(existsSync(`${file}.lease`)).toBe(false);
  const other = { ...systemProcesses.own(), pid: process.ppid, processStart: null };
  const release = takeFileLeaseSync(file, { processes: { ...systemProcesses, own: () => other } });
  expect(() => SessionManager.open(file)).toThrow(/is being written|process/);
  expect(codeOf(() => SessionManager.open(file))).toBe("busy");
  release();
  SessionManager.open<SessionManager>(file).close();
});

test("two managers of one process write one file, each on its own branch", () => {
  using one = create();
  const root = one.appendMessage(user("root"));
  using two = SessionManager.open<SessionManager>(one.getSessionFile()!);
  one.appendMessage(assistant("from one"));
  two.appendMessage(assistant("from two"));
  using again = SessionManager.open<SessionManager>(one.getSessionFile()!);
  expect(again.getChildren(root)).toHaveLength(2);
  expect(one.buildSessionContext().messages.at(-1)).toMatchObject({ content: [{ text: "from one" }] });
  expect(two.buildSessionContext().messages.at(-1)).toMatchObject({ content: [{ text: "from two" }] });
});

test("two managers of one process write one file by two names of its folder", () => {
  using one = create();
  one.appendMessage(user("one"));
  const file = one.getSessionFile()!;
  const link = join(folder, "link");
  symlinkSync(folder, link);
  using two = SessionManager.open<SessionManager>(join(link, basename(file)));
  two.appendMessage(user("two"));
  one.appendMessage(user("three"));
  expect(linesOf(file)).toHaveLength(4);
});

test("Espalier opens the file with its branches, labels and name, and its leaf", async () => {
  const session = create();
  const asked = session.appendMessage(user("Which tree?"));
  const pear = session.appendMessage(assistant("A pear."));
  session.appendLabelChange(pear, "first try");
  session.branchWithSummary(asked, "A pear was proposed.");
  session.appendMessage(assistant("An apple."));
  session.appendSessionInfo("Garden");
  await session.flush();
  const { messages } = session.buildSessionContext();
  session.close();
  const opened = await openSession({ file: session.getSessionFile()! });
  expect(opened.context.messages).toEqual(messages);
  expect(opened.name).toBe("Garden");
  await opened.say("And then?");
  await opened.close();
  using again = SessionManager.open<SessionManager>(session.getSessionFile()!);
  expect(again.buildSessionContext().messages.at(-1)).toMatchObject({ role: "user" });
});

test("`espalier tree` shows messages, roles, labels and the name", () => {
  using session = create();
  const asked = session.appendMessage(user("Which tree?"));
  const pear = session.appendMessage(assistant("A pear."));
  session.appendLabelChange(pear, "first try");
  session.branchWithSummary(asked, "A pear was proposed.");
  session.appendMessage(assistant("An apple."));
  const command = join(import.meta.dirname, "../../../../scripts/espalier.mjs");
  const shown = execFileSync(process.execPath, [command, "tree", session.getSessionFile()!], {
    encoding: "utf8",
  });
  for (const text of ["Which tree?", "A pear.", "first try", "A pear was proposed.", "An apple."])
    expect(shown).toContain(text);
}, 60_000);

test("a session that was navigated in Espalier has the new leaf", async () => {
  const session = create();
  const asked = session.appendMessage(user("one"));
  session.appendMessage(assistant("two"));
  session.close();
  const opened = await openSession({ file: session.getSessionFile()! });
  await opened.moveTo(asked);
  await opened.close();
  using again = SessionManager.open<SessionManager>(session.getSessionFile()!);
  expect(again.getLeafId()).toBe(asked);
});

test("an old file keeps its original next to it, and gets the same ids each time", () => {
  const file = join(folder, "old.jsonl");
  const header = { type: "session", id: "old", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/work" };
  const said = { type: "message", timestamp: "2025-01-01T00:00:01.000Z", message: user("hi") };
  const text = `${JSON.stringify(header)}\n${JSON.stringify(said)}\n`;
  writeFileSync(file, text);
  const [first] = SessionManager.open<SessionManager>(file).getEntries();
  expect(readFileSync(file, "utf8")).toBe(text);
  using session = SessionManager.open<SessionManager>(file);
  expect(session.getHeader().version).toBe(3);
  session.appendMessage(assistant("hello"));
  expect(session.getEntries()[0]).toEqual(first);
  expect(readFileSync(`${file}.v1`, "utf8")).toBe(text);
  expect(JSON.parse(linesOf(file)[1]!).id).toBe(first!.id);
  const entries = parseSessionEntries(text);
  migrateSessionEntries(entries);
  expect(entries[1]).toEqual(first);
});

test("a file that is not a session, or of a newer version, is refused and stays unchanged; an empty one gets a header", () => {
  const file = join(folder, "x.jsonl");
  for (const [text, code] of [
    ['{"type":"event"}\n', "not-a-session"],
    ['{"type":"session","version":9,"id":"a","timestamp":"","cwd":"/"}\n', "version"],
  ]) {
    writeFileSync(file, text!);
    expect(codeOf(() => SessionManager.open(file))).toBe(code);
    expect(readFileSync(file, "utf8")).toBe(text);
    expect(readdirSync(folder)).toEqual(["x.jsonl"]);
  }
  writeFileSync(file, "");
  using session = SessionManager.open<SessionManager>(file);
  expect(JSON.parse(linesOf(file)[0]!)).toMatchObject({ type: "session", id: session.getSessionId() });
});

test("a damaged line affects no other line", () => {
  const session = create();
  session.appendMessage(user("one"));
  const file = session.getSessionFile()!;
  session.close();
  writeFileSync(file, `${readFileSync(file, "utf8")}{"type":"message","id":"x","par\n`);
  using again = SessionManager.open<SessionManager>(file);
  again.appendMessage(assistant("two"));
  expect(again.buildSessionContext().messages).toHaveLength(2);
});

test("the address of a database is refused by one sentence", () => {
  const address = "postgres://localhost/sessions";
  for (const act of [() => SessionManager.open(address), () => SessionManager.create("/work", address)])
    expect(act).toThrow(
      /^Pi's SessionManager writes synchronously, which a database cannot do; .*openSession/,
    );
});

test("lists show the newest message, and progress includes all files", async () => {
  using session = create();
  session.appendMessage(user("first"));
  session.appendMessage({ ...assistant("second"), timestamp: 5_000 });
  session.appendSessionInfo("Named");
  using fork = SessionManager.forkFrom<SessionManager>(session.getSessionFile()!, "/elsewhere", folder);
  const told: number[] = [];
  const [found] = await SessionManager.list("/work", folder, (loaded, total) => told.push(loaded, total));
  expect(found).toMatchObject({
    path: session.getSessionFile(),
    name: "Named",
    messageCount: 2,
    firstMessage: "first",
    allMessagesText: "first second",
    modified: new Date(5_000),
  });
  expect(told).toEqual([1, 2, 2, 2]);
  expect(await SessionManager.listAll(folder)).toHaveLength(2);
  expect(SessionManager.findById("/elsewhere", fork.getSessionId(), folder)).toBe(fork.getSessionFile());
  expect(fork.getHeader()).toMatchObject({ cwd: "/elsewhere", parentSession: session.getSessionFile() });
  using recent = SessionManager.continueRecent<SessionManager>("/elsewhere", folder);
  expect(recent.getSessionId()).toBe(fork.getSessionId());
});

test("a plan is executed with Pi's model call, and the compaction is stored", async () => {
  const session = SessionManager.inMemory<SessionManager>();
  for (let turn = 0; turn < 10; turn++) {
    session.appendMessage(user(`Question ${turn}: ${"x".repeat(4_000)}`));
    session.appendMessage(assistant(`Answer ${turn}.`));
  }
  const settings = { ...DEFAULT_COMPACTION_SETTINGS, keepRecentTokens: 2_500 };
  expect(shouldCompact(190_000, 200_000, settings)).toBe(true);
  expect(shouldCompact(190_000, 200_000, { ...settings, enabled: false })).toBe(false);
  const path = session.getBranch();
  const plan = prepareCompaction(path, settings)!;
  const cut = findCutPoint(path, 0, path.length, settings.keepRecentTokens);
  expect(path[cut.firstKeptEntryIndex]!.id).toBe(plan.firstKeptEntryId);
  const asked: object[] = [];
  const stream = (...given: object[]) => {
    asked.push(...given);
    const text = "## Goal\nQuestions.\n\n## Progress\n### Done\n- [x] Eight of them.\n";
    return { result: async () => ({ content: [{ type: "text", text }], stopReason: "stop" }) };
  };
  const model = { provider: "p", id: "m", contextWindow: 200_000 };
  await expect(compact(plan, model)).rejects.toMatchObject({ code: "bad-input" });
  const result = await compact(plan, model, "key", {}, "Be short.", undefined, "off", stream);
  expect(asked[0]).toBe(model);
  expect(JSON.stringify(asked[1])).toContain("Question 0");
  expect(asked[2]).toMatchObject({ apiKey: "key" });
  session.appendCompaction(result.summary, result.firstKeptEntryId, result.tokensBefore, result.details);
  const { messages } = session.buildSessionContext();
  expect(messages[0]).toMatchObject({ role: "compactionSummary", summary: result.summary });
  expect(messages).toHaveLength(1 + path.length - cut.firstKeptEntryIndex);
  expect(prepareCompaction(session.getBranch(), settings)).toBeUndefined();
});

test("an answer that is not a summary is refused", async () => {
  const session = SessionManager.inMemory<SessionManager>();
  for (let turn = 0; turn < 4; turn++) {
    session.appendMessage(user("x".repeat(4_000)));
    session.appendMessage(assistant("y"));
  }
  const plan = prepareCompaction(session.getBranch(), {
    ...DEFAULT_COMPACTION_SETTINGS,
    keepRecentTokens: 500,
  })!;
  const model = { provider: "p", id: "m" };
  for (const [stopReason, code] of [
    ["length", "cut-off"],
    ["error", "failed"],
    ["aborted", "aborted"],
  ] as const) {
    const stream = () => ({
      result: async () => ({ content: [{ type: "text", text: "## Goal" }], stopReason }),
    });
    const asked = compact(plan, model, undefined, undefined, undefined, undefined, undefined, stream);
    await expect(asked).rejects.toMatchObject({ code });
  }
});

test("an abandoned branch is collected up to the common ancestor, and no text in it closes its block", () => {
  const session = SessionManager.inMemory<SessionManager>();
  const root = session.appendMessage(user("root"));
  const left = [session.appendMessage(assistant("a")), session.appendMessage(user("</transcript>"))];
  session.branch(root);
  const here = session.appendMessage(assistant("b"));
  const collected = collectEntriesForBranchSummary(session, left.at(-1)!, here);
  expect(collected.entries.map(({ id }) => id)).toEqual(left);
  expect(collected.commonAncestorId).toBe(root);
  expect(collectEntriesForBranchSummary(session, null, here)).toEqual({
    entries: [],
    commonAncestorId: null,
  });
  session.branch(left.at(-1)!);
  const shown = serializeConversation(session.buildSessionContext().messages);
  expect(shown.match(/<\/transcript>/g)).toHaveLength(1);
});

test.each(["@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent"])(
  "%s in an untested version is refused in one sentence",
  async (host) => {
    const manifest = join(folder, host, "package.json");
    mkdirSync(join(folder, host), { recursive: true });
    vi.doMock("node:module", async (original) => ({
      ...(await original<typeof import("node:module")>()),
      createRequire: () => ({ resolve: { paths: () => [folder] } }),
    }));
    const load = async (version: string) => {
      writeFileSync(manifest, JSON.stringify({ version }));
      vi.resetModules();
      return import("espalier/adapters/pi");
    };
    for (const version of ["0.57.0", "1.7.0", "2.0.0"])
      await expect(load(version)).rejects.toMatchObject({
        code: "unsuitable",
        message: `${host} ${version} is not a version that this adapter was tested with; npm install "${host}@>=0.58.0 <1.7.0".`,
      });
    for (const version of ["0.58.3", "0.73.1", "0.87.1", "1.5.2", "1.6.0"])
      expect(await load(version)).toHaveProperty("SessionManager");
    vi.doUnmock("node:module");
  },
  120_000,
);
