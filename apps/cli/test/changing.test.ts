import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  linesOf,
  said,
  sessionOf,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";

test("append reads messages from stdin, completes them, and appends them under the leaf in one batch", async () => {
  const file = demoCopy();
  const before = readFileSync(file);
  const stdin = `${JSON.stringify({ role: "user", content: "And now?" })}\n\n${JSON.stringify({
    role: "assistant",
    content: [{ type: "toolCall", id: "t1", name: "bash", arguments: { command: "ls" } }],
  })}\r\n${JSON.stringify({ role: "toolResult", toolCallId: "t1", content: "a\u2028b" })}`;
  const { code, value } = await espalierJson(["append", file], { stdin });
  expect(code).toBe(0);
  expect(Object.keys(value)).toEqual(["file", "leafId", "ids"]);
  expect(value).toMatchObject({ file, leafId: value.ids[2] });
  expect(readFileSync(file).subarray(0, before.length).equals(before)).toBe(true);
  const [user, answer, result] = linesOf(file).slice(-3) as { parentId: string; message: object }[];
  expect(user!.parentId).toBe("2ur7kch3b1oZ");
  expect(answer).toMatchObject({
    parentId: value.ids[0],
    message: { stopReason: "toolUse", model: "claude-haiku-4-5" },
  });
  expect(result).toMatchObject({
    message: { toolName: "bash", isError: false, content: [{ text: "a\u2028b" }] },
  });
});

test("append --at makes a branch", async () => {
  const file = demoCopy();
  const stdin = '{"role":"user","content":"Another way"}';
  const { value } = await espalierJson(["append", file, "--at", "before-cache"], { stdin });
  expect(linesOf(file).at(-1)).toMatchObject({ id: value.leafId, parentId: "vPdDiWYGH0ya" });
});

test("append creates a session at a path without a file, readable for its owner only", async () => {
  const file = join(temporaryFolder(), "deep", "new.jsonl");
  const { code, value } = await espalierJson(["append", file], {
    stdin: '{"role":"user","content":"Hello"}',
  });
  expect(code).toBe(0);
  expect(value.file).toBe(file);
  expect(linesOf(file)).toMatchObject([{ type: "session", version: 3 }, { message: { content: "Hello" } }]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

test("fields that the user's own extensions remove never reach a session that append creates", async () => {
  const home = temporaryFolder();
  mkdirSync(join(home, "extensions"));
  const redact = `export default (api: any) => api.on("entry_before_append", ({ entry }) => ({
    entry: JSON.parse(JSON.stringify(entry).replace("sesame", "[word]")),
  }));`;
  writeFileSync(join(home, "extensions/redact.ts"), redact);
  const file = join(temporaryFolder(), "new.jsonl");
  const stdin = '{"role":"user","content":"Open sesame"}';
  expect((await espalier(["append", file], { stdin, env: { ESPALIER_HOME: home } })).code).toBe(0);
  expect(linesOf(file)[1]).toMatchObject({ message: { content: "Open [word]" } });
});

test("a bad line of stdin is named, and nothing is appended or created", async () => {
  const file = demoCopy();
  const before = stateOf(file);
  const fresh = join(temporaryFolder(), "new.jsonl");
  const good = '{"role":"user","content":"x"}';
  const cases: [string, RegExp][] = [
    [`${good}\n{"role":"user"`, /^Line 2 of stdin: The line is not valid JSON\./],
    [`${good}\n\n{"role":"robot"}`, /^Line 3 of stdin: A message needs a role/],
    ["[]", /^Line 1 of stdin: A message needs a role/],
    [`${good}\n{"role":"toolResult","content":"y"}`, /^Line 2 of stdin: A toolResult needs/],
    ["\n", /^There is no message on stdin/],
  ];
  for (const [stdin, message] of cases) {
    const runs = await Promise.all(
      [file, fresh].map((target) => espalierJson(["append", target], { stdin })),
    );
    for (const { code, value } of runs) {
      expect(code).toBe(1);
      expect(value.error.code).toBe("bad-input");
      expect(value.error.message).toMatch(message);
    }
  }
  expect(stateOf(file)).toBe(before);
  expect(existsSync(fresh)).toBe(false);
});

test("navigate moves the leaf, and a reopened session has the same leaf", async () => {
  const file = demoCopy();
  const { value } = await espalierJson(["navigate", file, "before-cache"]);
  expect(value).toEqual({
    leafId: "vPdDiWYGH0ya",
    summaryEntryId: null,
    editorText: null,
    cache: { context: 7345, anew: 4166, cost: expect.closeTo(0.0144, 4), paysBackAfter: 6 },
  });
  expect((await espalierJson(["context", file])).value).toMatchObject({
    leafId: "vPdDiWYGH0ya",
    tokens: 3_857,
  });
  const start = await espalierJson(["navigate", file, "start"]);
  expect(start.value.leafId).toBeNull();
  expect((await espalierJson(["tree", file])).value.leafId).toBeNull();
});

test("navigate to a user message moves before it and prints its text", async () => {
  const file = demoCopy();
  const { value } = await espalierJson(["navigate", file, "pvYri3CNCbdd", "--label", "again"]);
  expect(value).toMatchObject({
    leafId: "PAk36PjB9auf",
    editorText: "Months. And yes to all three. Go ahead with the store and its tests, nothing else yet.",
  });
  expect((await espalierJson(["show", file, "again"])).value.id).toBe("pvYri3CNCbdd");
  const people = await espalier(["navigate", file, "pvYri3CNCbdd"]);
  expect(people.stdout).toMatch(
    /^The leaf is at PAk36PjB9auf: the model reads \d+ messages, [\d,]+ tokens\.\n/,
  );
});

test("navigate --dry-run shows the size of the context there and the cache misses, and writes nothing", async () => {
  const file = demoCopy();
  const before = readFileSync(file);
  const planned = await espalierJson(["navigate", file, "before-cache", "--dry-run"]);
  const people = await espalier(["navigate", file, "before-cache", "--dry-run"]);
  expect(people.stdout).toMatch(
    /^The leaf would be at vPdDiWYGH0ya: the model would read \d+ messages, 3,857 tokens\.\nPrompt cache: the next request has about [\d,]+ tokens as the provider counts them, and writes 4,166 of them to the cache, which costs \$0\.0144 more than reading them; .*6 calls\.\n$/,
  );
  expect(readFileSync(file).equals(before)).toBe(true);
  const { value } = await espalierJson(["navigate", file, "before-cache"]);
  expect(planned.value).toMatchObject({ leafId: value.leafId, tokens: 3_857, cache: value.cache });
  // A user message is reopened.
  const reopened = await espalierJson(["navigate", file, "pvYri3CNCbdd", "--dry-run"]);
  expect(reopened.value.leafId).toBe("PAk36PjB9auf");
});

test("undo reverts the newest act, and a second undo the one before", async () => {
  const file = demoCopy();
  await espalier(["navigate", file, "before-cache"]);
  await espalier(["navigate", file, "checkpoint"]);
  expect((await espalierJson(["undo", file])).value.leafId).toBe("vPdDiWYGH0ya");
  expect((await espalierJson(["undo", file])).value).toEqual({
    leafId: "2ur7kch3b1oZ",
    summaryEntryId: null,
    editorText: null,
    act: expect.objectContaining({ kind: "navigation" }),
  });
  expect((await espalierJson(["redo", file])).value.leafId).toBe("vPdDiWYGH0ya");
  await espalier(["label", file, "leaf", "here"]);
  const planned = await espalier(["undo", file, "--dry-run"]);
  expect(planned.stdout).toMatch(/^Would undo the label “here” \(20\d\d-[\d :-]+\)\.\n$/);
  expect((await espalier(["undo", file])).stdout).toMatch(
    /^Undone: the label “here” \(.*\)\.\nThe leaf is at vPdDiWYGH0ya/,
  );
  expect((await espalierJson(["redo", file])).value.act).toMatchObject({ kind: "label", text: "here" });
  const { value } = await espalierJson(["redo", file]);
  expect(value.error.code).toBe("nothing-to-redo");
});

test("fork copies a path into a new session", async () => {
  const out = join(temporaryFolder(), "fork.jsonl");
  const { value } = await espalierJson(["fork", DEMO, "checkpoint", "--out", out]);
  expect(value).toEqual({
    file: out,
    id: expect.stringMatching(/^[0-9A-Za-z]{12}$/),
    leafId: "4Nk83a3KYo7N",
    selectedText: null,
    summaryEntryId: null,
  });
  expect(linesOf(out)[0]).toMatchObject({ id: value.id, parentSession: DEMO });
  const [original, copy] = await Promise.all([
    espalierJson(["context", DEMO, "--at", "checkpoint"]),
    espalierJson(["context", out]),
  ]);
  expect(copy.value).toEqual(original.value);
  const again = await espalierJson(["fork", DEMO, "checkpoint", "--out", out]);
  expect(again).toMatchObject({ code: 1, value: { error: { code: "exists" } } });
});

test("fork --position before ends before a message and prints its text", async () => {
  const { value } = await espalierJson(["fork", DEMO, "pvYri3CNCbdd", "--position", "before"]);
  expect(value).toMatchObject({ leafId: "PAk36PjB9auf", selectedText: expect.stringMatching(/^Months\./) });
  // Kept by the store, the fork is found by its id.
  expect((await espalierJson(["tree", value.id])).value.session).toMatchObject({
    id: value.id,
    file: value.file,
  });
});

test("a fork of an old session has today's date, and the command to continue is printed", async () => {
  const home = temporaryFolder();
  const env = { ESPALIER_HOME: home };
  const source = sessionOf(
    {
      ...HEADER,
      id: "11111111-2222-4333-8444-555555555555",
      importedFrom: { agent: "claude-code", version: "1", id: "x", digest: "d" },
    },
    said("u1aaaa", null, "What grows here?"),
    said("u2aaaa", "u1aaaa", "And there?"),
  );
  const { stdout } = await espalier(["fork", source, "u1aaaa"], { env });
  const [, id] = /^The fork (\w+) is in .*\nContinue it with `espalier continue /.exec(stdout)!;
  expect(stdout).toContain(
    `\nContinue it with \`espalier continue ${id} --in claude-code\`, or here with \`espalier chat ${id}\`.\n`,
  );
  expect(stdout).toContain(", with a copy of 1 entry; its leaf is u1aaaa.\n");
  expect((await espalierJson(["list", "--since", "1h"], { env })).values).toMatchObject([{ id }]);
  const out = join(temporaryFolder(), "way.jsonl");
  const named = await espalier(["fork", DEMO, "before-cache", "--out", out], { env });
  expect(named.stdout).toContain(`\nContinue it with \`espalier chat ${out}\`.\n`);
});

test("a fork before a root that is not a prompt is refused, since it would be empty", async () => {
  const out = join(temporaryFolder(), "way.jsonl");
  const summary = { type: "compaction", id: "c1aaaa", parentId: null, timestamp: HEADER.timestamp };
  const root = { ...summary, summary: "All of it", firstKeptEntryId: "c1aaaa", tokensBefore: 9 };
  const source = sessionOf(HEADER, said("u1aaaa", null, "one"), root, said("u2aaaa", "c1aaaa", "two"));
  const { value } = await espalierJson(["fork", source, "c1aaaa", "--position", "before", "--out", out]);
  expect(value.error).toMatchObject({ code: "usage", message: expect.stringContaining("espalier tree") });
  expect(existsSync(out)).toBe(false);
  // A prompt is edited in the fork.
  const prompt = await espalierJson(["fork", source, "u1aaaa", "--position", "before", "--out", out]);
  expect(prompt.value).toMatchObject({ leafId: null, selectedText: "one" });
});

test("rules are listed at any entry, added and removed, as JSON and as lines", async () => {
  const file = join(temporaryFolder(), "new.jsonl");
  const stdin = '{"role":"user","content":"Please never push. What is next?"}';
  const { value: appended } = await espalierJson(["append", file], { stdin });
  expect(appended.ids).toHaveLength(1);
  const { value } = await espalierJson(["rules", file]);
  const from = { entryId: appended.ids[0], start: 7, end: 17 };
  const never = { id: appended.leafId, text: "never push", kind: "never", from, supersedes: null };
  expect(value).toEqual({ rules: [never] });
  const added = await espalierJson(["rules", file, "--add", "answer in English"]);
  expect(added.value.rules).toMatchObject([never, { text: "answer in English" }]);
  const dropped = await espalierJson(["rules", file, "--drop", never.id]);
  expect(dropped.value.rules).toMatchObject([{ text: "answer in English" }]);
  expect((await espalierJson(["rules", file, "--at", never.id])).value).toEqual({ rules: [never] });
  expect((await espalier(["rules", file])).stdout).toMatch(/^\w{12} {2}always {2}answer in English\n$/);
  const before = readFileSync(file);
  const cases: [string[], string][] = [
    [["--drop", "nothing"], "unknown-rule"],
    [["--add", " "], "not-text"],
    [["--add", "x", "--drop", "y"], "usage"],
    [["--at", "nothing"], "unknown-entry"],
  ];
  for (const [words, code] of cases) {
    const refused = await espalierJson(["rules", file, ...words]);
    expect([refused.code, refused.value.error.code]).toEqual([code === "usage" ? 2 : 1, code]);
  }
  expect(readFileSync(file).equals(before)).toBe(true);
});

test("the first change of an old file reports the new format and the place of the old file", async () => {
  const file = join(temporaryFolder(), "old.jsonl");
  const header = { type: "session", id: "old", timestamp: "2025-01-01T00:00:00.000Z", cwd: "/garden" };
  const said = { type: "message", timestamp: header.timestamp, message: { role: "user", content: "so?" } };
  writeFileSync(file, [header, said].map((line) => `${JSON.stringify(line)}\n`).join(""));
  expect((await espalier(["tree", file])).stderr).toBe("");
  const { stderr } = await espalier(["name", file, "pears"]);
  expect(stderr).toBe(`${file} was upgraded to format version 3; the old file is ${file}.v1.\n`);
  expect((await espalier(["name", file, "apples"])).stderr).toBe("");
  // A file of the user keeps its rights; in the home it is readable for its owner only.
  const home = temporaryFolder();
  mkdirSync(join(home, "sessions"));
  for (const [path, mode] of [
    [join(temporaryFolder(), "own.jsonl"), 0o644],
    [join(home, "sessions", "kept.jsonl"), 0o600],
  ] as const) {
    copyFileSync(`${file}.v1`, path);
    chmodSync(path, 0o644);
    expect((await espalier(["name", path, "pears"], { env: { ESPALIER_HOME: home } })).code).toBe(0);
    expect(statSync(path).mode & 0o777).toBe(mode);
  }
});

test("label, name and pin each append one entry", async () => {
  const file = demoCopy();
  const label = await espalierJson(["label", file, "leaf", "the  end"]);
  const name = await espalierJson(["name", file, "Tides"]);
  const pin = await espalierJson(["pin", file, "checkpoint"]);
  for (const { value } of [label, name, pin]) expect(value).toEqual({ entryId: expect.any(String) });
  const { value } = await espalierJson(["tree", file]);
  expect(value.session.name).toBe("Tides");
  expect(value.entries.find(({ id }: { id: string }) => id === "2ur7kch3b1oZ").label).toBe("the end");
  expect((await espalierJson(["show", file, pin.value.entryId])).value).toMatchObject({
    customType: "espalier.pin",
    data: { targetId: "4Nk83a3KYo7N", pinned: true },
  });
  await espalier(["label", file, "2ur7kch3b1oZ"]);
  const off = await espalierJson(["pin", file, "checkpoint", "--off"]);
  expect((await espalierJson(["show", file, off.value.entryId])).value.data).toMatchObject({ pinned: false });
  // The pin is the leaf now, and has no pin itself.
  const { stdout } = await espalier(["pin", file, off.value.entryId, "--off"]);
  expect(stdout).toBe(`${off.value.entryId} is not pinned.\n`);
  const cleared = await espalierJson(["tree", file]);
  expect(
    cleared.value.entries.filter((entry: { label: string | null }) => entry.label === "the end"),
  ).toEqual([]);
});

test("delete removes a session and its other files, only after confirmation", async () => {
  const file = demoCopy();
  const refused = await espalierJson(["delete", file]);
  expect(refused).toMatchObject({ code: 1, value: { error: { code: "confirm" } } });
  expect(existsSync(file)).toBe(true);
  const { value } = await espalierJson(["delete", file, "--yes"]);
  expect(value.deleted).toEqual([file]);
  expect(existsSync(file)).toBe(false);
});

test("delete asks no confirmation for a session that does not exist", async () => {
  for (const ref of ["nobody", join(temporaryFolder(), "nobody.jsonl")])
    for (const words of [
      ["delete", ref],
      ["delete", ref, "--yes"],
    ])
      expect((await espalierJson(words)).value.error, ref).toMatchObject({ code: "not-found" });
});

test("hide hides an entry from the model and --off shows it again; each appends one entry, or none without a change", async () => {
  const file = demoCopy();
  const before = readFileSync(file);
  const contextOf = async () => (await espalierJson(["context", file])).value;
  const whole = await contextOf();
  const [id] = whole.sources.slice(-1);
  const { code, value } = await espalierJson(["hide", file, id.slice(0, 6)]);
  expect({ code, value }).toEqual({ code: 0, value: { entryId: expect.any(String) } });
  expect(linesOf(file).at(-1)).toMatchObject({ id: value.entryId, targetId: id, replacement: null });
  expect(readFileSync(file).subarray(0, before.length).equals(before)).toBe(true);
  const hidden = await contextOf();
  expect(hidden.sources).toEqual(whole.sources.slice(0, -1));
  const again = await espalier(["hide", file, id]);
  expect(again.stdout).toBe(
    `${id} is already hidden; the model reads ${hidden.tokens.toLocaleString("en")} tokens.\n`,
  );
  expect((await espalierJson(["hide", file, id, "--off"])).value.entryId).not.toBeNull();
  expect((await espalierJson(["hide", file, id, "--off"])).value).toEqual({ entryId: null });
  expect(await contextOf()).toMatchObject({ messages: whole.messages, tokens: whole.tokens });
  await espalier(["undo", file]);
  expect((await espalierJson(["undo", file])).value.leafId).toBe(whole.leafId);
});

test("an entry that the model does not read cannot be hidden; the message names one that can", async () => {
  const file = demoCopy();
  const { code, value } = await espalierJson(["hide", file, "before-cache"]);
  expect(code).toBe(1);
  expect(value.error).toMatchObject({
    code: "not-in-context",
    message: expect.stringMatching(/: hide the compaction|: navigate to/),
  });
});

test("undo --expect takes back what --dry-run named, and nothing when the session has changed since", async () => {
  const file = demoCopy();
  await espalier(["label", file, "leaf", "here"]);
  const { act } = (await espalierJson(["undo", file, "--dry-run"])).value;
  await espalier(["name", file, "Other"]);
  const before = stateOf(file);
  const late = await espalierJson(["undo", file, "--expect", act.entryId]);
  expect([late.code, late.value.error.code]).toEqual([1, "stale"]);
  expect(late.value.error.message).toMatch(/^The newest action is now the name ".*nothing was undone\.$/);
  expect(stateOf(file)).toBe(before);
  const renaming = (await espalierJson(["undo", file])).value.act;
  expect((await espalierJson(["redo", file, "--expect", act.entryId])).value.error.code).toBe("stale");
  expect((await espalierJson(["redo", file, "--expect", renaming.entryId])).value.act).toEqual(renaming);
  await espalier(["undo", file]);
  expect((await espalierJson(["undo", file, "--expect", act.entryId])).value.act).toEqual(act);
});
