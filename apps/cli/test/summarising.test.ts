import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startMessagesServer, textReply } from "@espalier/summarizer/testing";
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
  start,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";

const SUMMARY = `## Goal
Tide tables without a network.

## Constraints & Preferences
- none

## Progress
### Done
- the store
### In Progress
- (none)
### Blocked
- (none)

## Key Decisions
- **Days**: stored by month

## Next Steps
1. Release

## Critical Context
- (none)`;

/** The environment in which Claude is the server of a test. */
const claudeAt = (url: string) => ({ ANTHROPIC_API_KEY: "test-key", ANTHROPIC_BASE_URL: url });

test("compact --json describes the written entry, and the context gets smaller", async () => {
  const file = demoCopy();
  const { code, value } = await espalierJson(["compact", file, "--keep-recent", "3000"]);
  expect(code).toBe(0);
  expect(Object.keys(value)).toEqual([
    "entryId",
    "summary",
    "tokensBefore",
    "tokensAfter",
    "firstKeptEntryId",
    "source",
    "editIds",
  ]);
  expect(value).toMatchObject({ source: "extractive", tokensBefore: 12_234, editIds: [] });
  const { value: context } = await espalierJson(["context", file]);
  expect(context).toMatchObject({ leafId: value.entryId, tokens: value.tokensAfter });
  expect(linesOf(file).at(-1)).toMatchObject({
    type: "compaction",
    id: value.entryId,
    summary: value.summary,
  });
});

test("if there is nothing to compact, the answer says so", async () => {
  const file = sessionOf(HEADER, said("e1", null, "hi"));
  const before = stateOf(file);
  for (const parameters of [
    ["compact", file],
    ["compact", file, "--dry-run"],
  ]) {
    const { code, value } = await espalierJson(parameters);
    expect(code).toBe(0);
    expect(value).toEqual({ eligible: false, reason: expect.stringMatching(/^Nothing to compact/) });
  }
  expect(stateOf(file)).toBe(before);
});

test("navigate --summarize and merge append a summary of another branch", async () => {
  const file = demoCopy();
  const { value } = await espalierJson(["navigate", file, "before-cache", "--summarize"]);
  expect(value).toEqual({
    leafId: value.summaryEntryId,
    summaryEntryId: expect.any(String),
    editorText: null,
    cache: expect.objectContaining({ anew: expect.any(Number) }),
  });
  expect(linesOf(file).at(-1)).toMatchObject({
    type: "branch_summary",
    parentId: "vPdDiWYGH0ya",
    fromId: "2ur7kch3b1oZ",
  });
  const merged = await espalierJson(["merge", file, "http-cache-dead-end"]);
  expect(merged.value).toEqual({ entryId: expect.any(String), leafId: merged.value.entryId });
  const before = stateOf(file);
  expect((await espalierJson(["merge", file, "http-cache-dead-end"])).value).toEqual(merged.value);
  expect(stateOf(file)).toBe(before);
});

test("the summary of a branch with only a command names the command", async () => {
  const file = sessionOf(
    HEADER,
    said("root", null, "Fix the parser"),
    said("exit", "root", "<command-name>/exit</command-name>"),
    said("bye", "exit", "<local-command-stdout>See ya!</local-command-stdout>"),
    said("stack", "root", "Use a stack in the parser"),
  );
  const { value } = await espalierJson(["merge", file, "bye"]);
  const { stdout } = await espalier(["tree", file]);
  const line = stdout.split("\n").find((each) => each.startsWith(value.entryId));
  expect(line).toBe(`${value.entryId} summary of bye  - First request: "/exit" *`);
});

test("fork --summarize appends a summary of the left-out entries after the copied path", async () => {
  const out = join(temporaryFolder(), "fork.jsonl");
  const { value } = await espalierJson(["fork", demoCopy(), "before-cache", "--summarize", "--out", out]);
  expect(value.leafId).toBe(value.summaryEntryId);
  const summary = linesOf(out).find(({ id }) => id === value.summaryEntryId);
  expect(summary).toMatchObject({ type: "branch_summary", parentId: "vPdDiWYGH0ya" });
});

test("summarize prints a summary of messages from stdin", async () => {
  const { stdout: messages } = await espalier(["context", DEMO, "--json"]);
  const { stdout } = await espalier(["summarize"], { stdin: messages });
  expect(stdout).toMatch(/^## Goal\n/);
  const { value } = await espalierJson(["summarize"], { stdin: messages });
  expect(value).toEqual({
    summary: stdout.trimEnd(),
    tokens: Math.ceil(value.summary.length / 4),
    usage: null,
    source: "extractive",
  });
  for (const stdin of ["", "[]", '{"messages":[1]}']) {
    expect(await espalierJson(["summarize"], { stdin })).toMatchObject({
      code: 1,
      value: { error: { code: "bad-input" } },
    });
  }
});

test("Claude writes the summary with a key, by the real SDK", async () => {
  const server = await startMessagesServer({ reply: textReply(SUMMARY) });
  try {
    const { code, value } = await espalierJson(["compact", demoCopy(), "--keep-recent", "3000"], {
      env: claudeAt(server.url),
    });
    expect(code).toBe(0);
    expect(value.source).toMatch(/^anthropic/);
    expect(value.summary).toContain("Tide tables without a network.");
  } finally {
    await server.close();
  }
});

test("the model of the settings writes the summary with their key, also when it is given as provider/id", async () => {
  const server = await startMessagesServer({ reply: textReply(SUMMARY) });
  const home = temporaryFolder();
  try {
    for (const model of ["claude-haiku-4-5", "anthropic/claude-haiku-4-5"]) {
      const access = { anthropicApiKey: "test-key", anthropicBaseUrl: server.url };
      writeFileSync(join(home, "settings.json"), JSON.stringify({ model, ...access }));
      const env = { ESPALIER_HOME: home };
      const compacted = await espalier(["compact", demoCopy(), "--keep-recent", "3000"], { env });
      expect(compacted).toMatchObject({ code: 0, stderr: "" });
    }
    const asked = server.requests.map(({ body }) => body["model"]);
    expect(new Set(asked)).toEqual(new Set(["claude-haiku-4-5"]));
  } finally {
    await server.close();
  }
});

test("a summary in another language is accepted at the first attempt, and missing headings are reported", async () => {
  const file = demoCopy();
  const server = await startMessagesServer({
    reply: textReply("## 目标\n修复潮汐表。\n\n## Progress\n- [x] 完成"),
  });
  const parameters = ["compact", file, "--keep-recent", "3000", "--summarizer", "anthropic"];
  try {
    const { code, value } = await espalierJson(parameters, { env: claudeAt(server.url) });
    expect({ code, source: value.source }).toEqual({ code: 0, source: "anthropic" });
    expect(value.summary).toContain("修复潮汐表。");
    expect(value.missingSections).toContain("Goal");
    expect(value.missingSections).not.toContain("Progress");
    expect(linesOf(file).slice(212 + 1)).not.toContainEqual(expect.objectContaining({ type: "usage" }));
  } finally {
    await server.close();
  }
});

test("a named summarizer fails with its own error; --fallback uses the extractive one instead", async () => {
  const file = demoCopy();
  const before = stateOf(file);
  const server = await startMessagesServer({ reply: textReply("I cannot summarize this conversation.") });
  const parameters = ["compact", file, "--keep-recent", "3000", "--summarizer", "anthropic"];
  try {
    const failed = await espalierJson(parameters, { env: claudeAt(server.url) });
    expect(failed).toMatchObject({ code: 1, value: { error: { code: "refused" } } });
    const left = linesOf(file).slice(212 + 1);
    expect(left.every(({ type }) => type === "usage")).toBe(true);
    const saved = await espalierJson([...parameters, "--fallback"], { env: claudeAt(server.url) });
    expect(saved).toMatchObject({ code: 0, value: { source: "extractive" } });
  } finally {
    await server.close();
  }
  expect(stateOf(file)).not.toBe(before);
  const without = await espalierJson(parameters);
  expect(without).toMatchObject({ code: 1, value: { error: { code: "bad-input" } } });
});

test("a summary that is extracted because Claude failed names the reason", async () => {
  const server = await startMessagesServer({
    reply: { kind: "error", status: 401, type: "authentication_error", message: "invalid x-api-key" },
  });
  try {
    const parameters = ["compact", demoCopy(), "--keep-recent", "3000"];
    const { code, stdout, stderr } = await espalier(parameters, { env: claudeAt(server.url) });
    expect(code).toBe(0);
    expect(stdout).toContain("written by extractive");
    expect(stderr).toMatch(
      /^The summary was extracted from the messages, because anthropic wrote none: [^\n]*key[^\n]*\n$/,
    );
  } finally {
    await server.close();
  }
  const { stderr } = await espalier(["compact", demoCopy(), "--keep-recent", "3000"]);
  expect(stderr).toBe("");
});

test("an exceeded budget is reported before a summarizer is called, and nothing is written", async () => {
  const file = demoCopy();
  const before = readFileSync(file);
  const home = temporaryFolder();
  writeFileSync(join(home, "settings.json"), JSON.stringify({ maxCost: 1 }));
  const server = await startMessagesServer({ reply: textReply(SUMMARY) });
  const env = { ...claudeAt(server.url), ESPALIER_HOME: home };
  try {
    for (const act of [
      ["compact", file, "--keep-recent", "3000"],
      ["navigate", file, "before-cache", "--summarize"],
    ]) {
      const { code, stderr } = await espalier([...act, "--summarizer", "anthropic"], { env });
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /This session has cost \$1\.\d\d, and .*; its budget \(maxCost\) is \$1\.00\. Raise/,
      );
    }
    expect(server.requests).toEqual([]);
  } finally {
    await server.close();
  }
  expect(readFileSync(file).equals(before)).toBe(true);
});

test("Ctrl-C aborts a running summary without a trace", async () => {
  const file = demoCopy();
  const before = stateOf(file);
  let wasAsked = () => {};
  const server = await startMessagesServer({
    reply: () => {
      wasAsked();
      return { kind: "hang" };
    },
  });
  try {
    for (const parameters of [
      ["compact", file, "--keep-recent", "3000"],
      ["navigate", file, "before-cache", "--summarize"],
    ]) {
      const asked = new Promise<void>((resolve) => {
        wasAsked = resolve;
      });
      const child = await start([...parameters, "--json"], { env: claudeAt(server.url) });
      let stdout = "";
      child.stdout.on("data", (piece) => {
        stdout += piece;
      });
      await asked;
      child.kill("SIGINT");
      const [code] = await once(child, "close");
      expect(code).toBe(130);
      expect(JSON.parse(stdout)).toMatchObject({ error: { code: "aborted" } });
    }
  } finally {
    await server.close();
  }
  expect(stateOf(file)).toBe(before);
});

test("an extension of the command line changes the result; one of an untrusted project never runs", async () => {
  const project = temporaryFolder();
  const home = temporaryFolder();
  const file = join(project, "session.jsonl");
  copyFileSync(DEMO, file);
  const [header, ...rest] = readFileSync(file, "utf8").split("\n");
  writeFileSync(file, [JSON.stringify({ ...JSON.parse(header!), cwd: project }), ...rest].join("\n"));
  const ran = join(project, "ran");
  mkdirSync(join(project, ".espalier/extensions"), { recursive: true });
  writeFileSync(
    join(project, ".espalier/extensions/mark.ts"),
    `import { writeFileSync } from "node:fs";
export default (api: unknown) => writeFileSync(${JSON.stringify(ran)}, "ran");`,
  );
  const options = { cwd: project, env: { ESPALIER_HOME: home } };
  expect((await espalier(["tree", file], options)).code).toBe(0);
  expect((await espalier(["label", file, "leaf", "here"], options)).code).toBe(0);
  expect(existsSync(ran)).toBe(false);

  const refuse = join(project, "refuse.ts");
  writeFileSync(
    refuse,
    'export default (api: any) => api.on("session_before_compact", () => ({ cancel: true }));',
  );
  const before = stateOf(file);
  const refused = await espalierJson(
    ["compact", file, "--keep-recent", "3000", "--extension", "refuse.ts"],
    options,
  );
  expect(refused).toMatchObject({ code: 1, value: { error: { code: "cancelled" } } });
  expect(stateOf(file)).toBe(before);

  expect((await espalierJson(["trust"], options)).value).toMatchObject({ trusted: true });
  expect((await espalier(["tree", file], options)).code).toBe(0);
  expect(existsSync(ran)).toBe(false);
  expect((await espalier(["label", file, "leaf", "there"], options)).code).toBe(0);
  expect(existsSync(ran)).toBe(true);
  expect((await espalierJson(["trust", "--revoke"], options)).value).toMatchObject({ trusted: false });
});

test("a missing extension is an error before anything happens", async () => {
  const { code, value } = await espalierJson(["tree", DEMO, "--extension", "nowhere.ts"]);
  expect(code).toBe(1);
  expect(value.error.code).toBe("not-found");
});

test("for a policy with its own token count, the size of the context is printed as the session counts", async () => {
  const file = demoCopy();
  const { stdout } = await espalier(["compact", file, "--policy", "pressure", "--summarizer", "extractive"]);
  const told = /By the session's count, the model now reads ([\d,]+)/.exec(stdout)?.[1];
  expect(told).toBeDefined();
  expect((await espalier(["tree", file])).stdout).toContain(`, ${told} tokens`);
  const same = await espalier(["compact", demoCopy(), "--keep-recent", "2000", "--summarizer", "extractive"]);
  expect(same.stdout).toMatch(/^Compacted: /);
  expect(same.stdout).not.toContain("in its own way");
});
