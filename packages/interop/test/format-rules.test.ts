// What the formats of other agents name one by one: each type of line, each item, each place where files lie.
import { utimesSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  answer,
  aside,
  attachment,
  boundary,
  call as claudeCall,
  result,
  SESSION,
  summary,
  user,
} from "./claude-code-lines.ts";
import { call, injected, message, output, prompt, Rollout, rolloutName } from "./codex-lines.ts";
import {
  type AnyEntry,
  entryWith,
  importAll,
  imported,
  opened,
  said,
  scratchFolder,
  scratchStore,
  writeLines,
  writeRollout,
  writeSession,
} from "./import-scratch.ts";
import { requestProblems } from "./request-problems.ts";

const namesOf = (entries: readonly AnyEntry[]): string[] =>
  entries.map(({ type, message: of, customType }) => of?.role ?? customType ?? type);

describe("Claude Code", () => {
  const read = (lines: readonly object[], folder = scratchFolder()) => imported(writeSession(lines, folder));
  const talk = [user("u1", null), answer("a1", "u1")];

  test.each([
    ["mode", "claude-code.mode"],
    ["permission-mode", "claude-code.permission-mode"],
    ["cost-state", "claude-code.cost-state"],
    ["agent-name", "claude-code.agent-name"],
    ["pr-link", "claude-code.pr-link"],
    ["file-history-snapshot", "claude-code.file-history-snapshot"],
    ["content-replacement", "claude-code.content-replacement"],
    ["bridge-session", "claude-code.bridge-session"],
  ])("a line `%s` is kept as state, and is not reported", async (type, customType) => {
    const { entries, report } = await read([...talk, aside(type, { value: 7 })]);
    expect(entries.at(-1)).toMatchObject({ type: "custom", customType, data: { value: 7 } });
    expect(report.issues).toEqual([]);
  });

  test.each([
    "queue-operation",
    "last-prompt",
    "tools-used",
    "atis-latch",
    "api-request",
    "api-request-shape",
    "api-request-blob",
  ])("a line `%s` is left out, and reported with its number", async (type) => {
    const { entries, report } = await read([...talk, aside(type, { value: 7 })]);
    expect(namesOf(entries)).toEqual(["user", "assistant"]);
    expect(report.issues).toMatchObject([{ kind: "bookkeeping", line: 3, lines: "3" }]);
    expect(report.issues[0]!.message).toContain(type);
  });

  test("old progress lines are positions in the tree: their successors stay on the path", async () => {
    const progress = { ...user("p1", "a1"), type: "progress", message: undefined, data: { step: 1 } };
    const { session, entries } = await read([...talk, progress, user("u2", "p1"), answer("a2", "u2")]);
    expect(said(session.context.messages)).toEqual([
      "user: u1",
      "assistant: a1",
      "user: u2",
      "assistant: a2",
    ]);
    expect(entryWith(entries, "p1")).toMatchObject({ parentId: "a1", customType: "claude-code.progress" });
  });

  test("the metadata of an automatic compaction stays with it, even if it names ids that are not in the file", async () => {
    const metadata = {
      trigger: "auto",
      postTokens: 900,
      cumulativeDroppedTokens: 2_100,
      runningTurnPrompt: "Go",
    };
    const kept = { anchorUuid: "s1", uuids: ["gone", "a1"], allUuids: ["gone", "a1", "never"] };
    const { session, entries } = await read([
      ...talk,
      {
        ...boundary("b1", "a1"),
        compactMetadata: { ...metadata, preTokens: 3_000, preservedMessages: kept },
      },
      attachment("x1", "b1", "session_context", "<context>"),
      summary("s1", "x1"),
      user("u2", "s1"),
      answer("a2", "u2"),
    ]);
    expect(entryWith(entries, "s1")).toMatchObject({
      type: "compaction",
      parentId: "a1",
      firstKeptEntryId: "a1",
      tokensBefore: 3_000,
      details: { reason: "auto", "claude-code": metadata },
    });
    expect(said(session.context.messages)).toEqual([
      expect.stringMatching(/^compactionSummary: /),
      "assistant: a1",
      "user: u2",
      "assistant: a2",
    ]);
  });

  test("a sub-agent without a note next to its file is linked by its call's result", async () => {
    const folder = scratchFolder();
    writeSession(
      [
        user("u1", null),
        answer("a1", "u1", claudeCall("c1", { prompt: "something else" }, "Task"), { stop: "tool_use" }),
        result("r1", "a1", "c1", "done", { toolUseResult: { agentId: "abc", status: "completed" } }),
      ],
      folder,
    );
    const run = [user("s1", null, "do the work"), answer("s2", "s1", "working")];
    writeLines(
      join(folder, SESSION, "subagents", "agent-abc.jsonl"),
      run.map((line) => ({ ...line, isSidechain: true, agentId: "abc" })),
    );
    const store = scratchStore();
    const [, report] = await importAll(folder, store);
    const { session } = await opened(store, report!);
    expect(session.header?.parent).toEqual({ sessionId: SESSION, entryId: "a1", kind: "subagent" });
  });

  test("a fork with a long continuation finds its source entry", async () => {
    const folder = scratchFolder();
    const other = "99999999-2222-4333-8444-555555555555";
    const lines: object[] = [...talk];
    for (let at = 0; at < 2_000; at++)
      lines.push(user(`own${at}`, at === 0 ? "a1" : `own${at - 1}`, "x".repeat(2_000)));
    writeSession([...talk, user("u2", "a1")], folder);
    writeLines(join(folder, `${other}.jsonl`), lines);
    utimesSync(join(folder, `${SESSION}.jsonl`), 1, 1);
    const store = scratchStore();
    const reports = await importAll(folder, store);
    const fork = await opened(store, reports.find(({ sessionId }) => sessionId === other)!);
    expect(fork.session.header?.parent).toEqual({ sessionId: SESSION, entryId: "a1", kind: "fork" });
  });
});

describe("Codex", () => {
  const read = (rollout: Rollout, folder = scratchFolder()) => imported(writeRollout(rollout.lines, folder));
  const begun = () => new Rollout({ ordinal: 0 }).meta().turn().items(prompt("go"));

  test.each([
    "world_state",
    "retained_context",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "dynamic_tools_updated",
    "realtime_item",
    "security_risk_score",
  ])("a line `%s` is kept as state, and is not reported", async (type) => {
    const { entries, report } = await read(
      begun().add(type, { value: 7 }).items(message("assistant", "done")),
    );
    expect(entries.find((entry: AnyEntry) => entry.customType === `codex.${type}`)).toMatchObject({
      type: "custom",
      data: { value: 7 },
    });
    expect(report.issues).toEqual([]);
  });

  test.each([
    [
      { type: "local_shell_call", call_id: "c1", action: { command: ["ls"] } },
      "local_shell",
      "local_shell_call_output",
    ],
    [
      { type: "custom_tool_call", call_id: "c1", name: "apply_patch", input: "***" },
      "apply_patch",
      "custom_tool_call_output",
    ],
    [
      { type: "tool_search_call", call_id: "c1", arguments: { query: "x" } },
      "tool_search",
      "tool_search_output",
    ],
    [call("c1"), "exec_command", "function_call_output"],
  ])(
    "a call like %j is a call, and its output its result, with any items between",
    async (item, name, answered) => {
      const given = { ...output("c1"), type: answered };
      const between = injected("a word of the agent's");
      const { session } = await read(begun().items(item, between, given, message("assistant", "done")));
      const { messages } = session.context;
      const calling = messages.find(({ role }) => role === "assistant") as AnyEntry;
      expect(calling.content).toMatchObject([{ type: "toolCall", id: "c1", name }]);
      expect(messages.find(({ role }) => role === "toolResult")).toMatchObject({
        toolCallId: "c1",
        toolName: name,
      });
      expect(requestProblems(session.context)).toEqual([]);
    },
  );

  test.each(["web_search_call", "image_generation_call"])(
    "a call that the provider ran (%s) is for the provider alone",
    async (type) => {
      const { session } = await read(
        begun().items({ type, id: "h1", status: "completed" }, message("assistant", "done")),
      );
      const answered = session.context.messages.find(({ role }) => role === "assistant") as AnyEntry;
      expect(answered.content).toMatchObject([
        { type: `openai-responses.${type}`, native: { provider: "openai" } },
        { type: "text", text: "done" },
      ]);
    },
  );

  test.each(["compaction", "context_compaction", "additional_tools", "configuration_update"])(
    "an item `%s` is state, and is not sent to a model",
    async (type) => {
      const { session, entries, report } = await read(
        begun().items({ type, value: 7 }, message("assistant", "done")),
      );
      expect(namesOf(entries)).toContain(`codex.${type}`);
      expect(said(session.context.messages)).toEqual(["user: go", "assistant: done"]);
      expect(report.issues).toEqual([]);
    },
  );

  test("a message of another agent has that agent's name, and is sent to the model", async () => {
    const item = {
      type: "agent_message",
      author: "/root/a",
      recipient: "/root",
      content: [{ type: "input_text", text: "found it" }],
    };
    const { session, entries } = await read(begun().items(item, message("assistant", "good")));
    expect(entries.find((entry: AnyEntry) => entry.customType === "codex.agent_message")).toMatchObject({
      content: "found it",
      details: { author: "/root/a" },
    });
    expect(JSON.stringify(session.context.messages)).toContain("found it");
  });

  test("archived sessions, and a home with another name, are found", async () => {
    const home = scratchFolder();
    const lines = begun().items(message("assistant", "done")).lines;
    writeLines(join(home, "archived_sessions", rolloutName()), lines);
    const [report] = await importAll("codex", scratchStore(), {
      env: { CODEX_HOME: home, HOME: scratchFolder() },
    });
    expect(report).toMatchObject({ status: "created", branches: 1 });
  });
});
