import { existsSync, readdirSync, readFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isMessage } from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import {
  answer,
  aside,
  attachment,
  boundary,
  call,
  type Line,
  result,
  SESSION,
  summary,
  thinking,
  user,
} from "./claude-code-lines.ts";
import { rebuildConversation } from "./claude-code-rebuild.ts";
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
  writeSession,
} from "./import-scratch.ts";
import { requestProblems } from "./request-problems.ts";

/** Imports lines as the file of one session. */
const read = (lines: readonly unknown[], name = SESSION) =>
  imported(writeSession(lines, scratchFolder(), name));

const idsOfPath = (session: { getBranch(): { id: string }[] }) => session.getBranch().map(({ id }) => id);

describe("messages of Claude Code", () => {
  test("a line keeps its id, its parent and its time", async () => {
    const lines = [user("u1", null), answer("a1", "u1"), user("u2", "a1")];
    const { entries, session } = await read(lines);
    expect(entries.map(({ id, parentId }) => [id, parentId])).toEqual([
      ["u1", null],
      ["a1", "u1"],
      ["u2", "a1"],
    ]);
    expect(entries[1]!.timestamp).toBe(lines[1]!["timestamp"]);
    expect(entryWith(entries, "a1").message.timestamp).toBe(Date.parse(String(lines[1]!["timestamp"])));
    expect(session.leafId).toBe("u2");
  });

  test("the header names the source of the session", async () => {
    const { session, report } = await read([user("u1", null), answer("a1", "u1")]);
    expect(session.header).toMatchObject({
      id: SESSION,
      cwd: "/home/me/project",
      importedFrom: { agent: "claude-code", version: "2.1.330", id: SESSION },
    });
    expect(session.header?.importedFrom?.digest).toMatch(/^[0-9a-f]{64}$/);
    expect(report).toMatchObject({
      status: "created",
      entries: 2,
      added: 2,
      branches: 1,
      compactions: 0,
      issues: [],
    });
  });

  test("lines of one answer become one message, thinking first with its signature, its tokens counted once", async () => {
    const { entries } = await read([
      user("u1", null),
      answer("a1", "u1", "Running.", { id: "m" }),
      answer("a2", "a1", thinking("I should"), { id: "m" }),
      answer("a3", "a2", call("c1"), { id: "m", stop: "tool_use" }),
      result("r1", "a3", "c1"),
    ]);
    expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "r1"]);
    expect(entryWith(entries, "a1").message).toMatchObject({
      content: [
        { type: "thinking", thinking: "I should", thinkingSignature: "signed I should" },
        { type: "text", text: "Running." },
        { type: "toolCall", id: "c1", name: "Bash" },
      ],
      provider: "anthropic",
      model: "claude-test",
      stopReason: "toolUse",
      usage: { input: 100, output: 12, cacheRead: 30, cacheWrite: 7, totalTokens: 149 },
    });
    expect(entries.filter((entry) => (entry as AnyEntry).message?.usage)).toHaveLength(1);
    expect(entryWith(entries, "r1").parentId).toBe("a1");
  });

  test("lines of one answer become one message, whatever escapes are in them", async () => {
    const escaped = (line: Line) => JSON.stringify(line).replace('"id":"m1"', '"id":"m\\u0031"');
    const { entries, report } = await imported(
      writeSession([
        user("u1", null),
        escaped(answer("a1", "u1", "one", { id: "m1" })),
        JSON.stringify(answer("a2", "a1", "two", { id: "m1" })).replace('"role"', '"ro\\u006ce"'),
        JSON.stringify({ ...answer("a3", "a2"), message: 'a "text"' }),
        JSON.stringify({ ...answer("a4", "a3"), message: 4 }),
      ]),
    );
    expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "a3", "a4"]);
    expect(entryWith(entries, "a1").message.content).toMatchObject([{ text: "one" }, { text: "two" }]);
    expect(report.issues.map(({ lines }) => lines)).toEqual(["4-5"]);
  });

  test("numbered blocks stay in order when thinking comes first", async () => {
    const { entries } = await read([
      user("u1", null),
      answer("a1", "u1", thinking("one"), { id: "m", apiBlockIndex: 0 }),
      answer("a3", "a1", thinking("three"), { id: "m", apiBlockIndex: 2 }),
      answer("a2", "a3", "two", { id: "m", apiBlockIndex: 1 }),
    ]);
    const types = entryWith(entries, "a1").message.content.map(
      (block: Line) => block["thinking"] ?? block["text"],
    );
    expect(types).toEqual(["one", "two", "three"]);
  });

  test("one answer on two separate lines is two messages with one bill", async () => {
    const { entries } = await read([
      user("u1", null),
      answer("a1", "u1", "one", { id: "m" }),
      user("u2", "a1"),
      answer("a2", "u2", "two", { id: "other" }),
      user("u3", null),
      answer("a3", "u3", "three", { id: "m" }),
    ]);
    expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "u2", "a2", "u3", "a3"]);
    expect(entryWith(entries, "a3").message.usage).toBeUndefined();
  });

  test("each result of a line becomes a separate message, and the text next to them a user message", async () => {
    const { entries, session } = await read([
      user("u1", null),
      answer("a1", "u1", call("c1"), { id: "m" }),
      answer("a2", "a1", call("c2", {}, "Read"), { id: "m", stop: "tool_use" }),
      user("r1", "a2", [
        { type: "tool_result", tool_use_id: "c1", content: "one" },
        { type: "tool_result", tool_use_id: "c2", content: [{ type: "text", text: "two" }], is_error: true },
        { type: "text", text: "and now?" },
      ]),
      answer("a3", "r1", "done"),
    ]);
    expect(said(session.context.messages)).toEqual([
      "user: u1",
      "assistant: ",
      "toolResult: one",
      "toolResult: two",
      "user: and now?",
      "assistant: done",
    ]);
    const results = entries.filter(
      (entry) => (entry as AnyEntry).message?.role === "toolResult",
    ) as AnyEntry[];
    expect(results.map(({ message }) => [message.toolName, message.isError])).toEqual([
      ["Bash", false],
      ["Read", true],
    ]);
    expect(entryWith(entries, "a3").parentId).toBe("r1");
    expect(requestProblems(session.context)).toEqual([]);
  });

  test("results under parallel calls are all on the path of the next message", async () => {
    const { session } = await read([
      user("u1", null),
      answer("a1", "u1", call("c1"), { id: "m" }),
      answer("a2", "a1", call("c2"), { id: "m" }),
      answer("a3", "a2", call("c3"), { id: "m", stop: "tool_use" }),
      result("r1", "a1", "c1"),
      attachment("x1", "r1", "reminder", "remember"),
      result("r3", "a3", "c3"),
      result("r2", "a2", "c2"),
      answer("a4", "r3", "done"),
    ]);
    expect(said(session.context.messages)).toEqual([
      "user: u1",
      "assistant: ",
      "toolResult: out c1",
      "toolResult: out c3",
      "toolResult: out c2",
      "assistant: done",
    ]);
    expect(idsOfPath(session)).toContain("x1");
    expect(requestProblems(session.context)).toEqual([]);
  });

  test("image blocks become images, and documents stay unchanged for their provider", async () => {
    const { entries } = await read([
      user("u1", null, [
        { type: "text", text: "look" },
        { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } },
        { type: "document", source: { type: "text", media_type: "text/plain", data: "a document" } },
      ]),
    ]);
    expect(entryWith(entries, "u1").message.content).toMatchObject([
      { type: "text", text: "look" },
      { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" },
      { native: { format: "anthropic", value: { type: "document" } } },
    ]);
  });

  test("an answer that the agent wrote in place of a failed one is a failed answer of the previous model", async () => {
    const { entries } = await read([
      user("u1", null),
      answer("a1", "u1"),
      user("u2", "a1"),
      answer("a2", "u2", "API Error: 529", { model: "<synthetic>", isApiErrorMessage: true }),
    ]);
    expect(entryWith(entries, "a2").message).toMatchObject({
      stopReason: "error",
      errorMessage: "API Error: 529",
      model: "claude-test",
    });
  });

  test("a structured copy of a result is kept next to it", async () => {
    const { entries } = await read([
      user("u1", null),
      answer("a1", "u1", call("c1")),
      result("r1", "a1", "c1", "hi", { toolUseResult: { stdout: "hi", interrupted: false } }),
    ]);
    expect(entryWith(entries, "r1").message.details).toEqual({ stdout: "hi", interrupted: false });
  });

  test.each([
    ["one copy for each result is kept with its result", [{ a: 1 }, { b: 2 }], [{ a: 1 }, { b: 2 }], []],
    [
      "one copy for all is kept with the last result, and is reported",
      { c: 3 },
      [undefined, { c: 3 }],
      ["3"],
    ],
  ])("of structured copies for several results of a line, %s", async (_name, toolUseResult, kept, told) => {
    const blocks = ["c1", "c2"].map((id) => ({ type: "tool_result", tool_use_id: id, content: id }));
    const { entries, report } = await read([
      user("u1", null),
      answer("a1", "u1", call("c1"), { id: "m1", stop: "tool_use" }),
      user("r1", "a1", blocks, { toolUseResult }),
      answer("a2", "r1", call("c2"), { id: "m2" }),
    ]);
    const results = entries.flatMap((entry) => (isMessage(entry, "toolResult") ? [entry.message] : []));
    expect(results.map(({ toolCallId }) => toolCallId)).toEqual(["c1", "c2"]);
    expect(results.map(({ details }) => details)).toEqual(kept);
    expect(report.issues.flatMap(({ kind, lines }) => (kind === "content" ? [lines] : []))).toEqual(told);
  });

  test("a prompt without readable content is reported", async () => {
    const lost = (id: string, parent: string, message: unknown) => ({ ...user(id, parent), message });
    const { report } = await read([
      user("u1", null),
      lost("u2", "u1", "a text"),
      lost("u3", "u2", { role: "user" }),
      lost("u4", "u3", { role: "user", content: { text: "a text" } }),
    ]);
    expect(report.issues).toMatchObject([{ kind: "content", count: 3, lines: "2-4" }]);
  });

  test("omitted content of a message is reported with each of its lines", async () => {
    const odd = (at: number) => answer(`a${at}`, `u${at}`, { type: "text", text: "yes", cache_control: {} });
    const { report } = await read([user("u1", null), odd(1), user("u2", "a1"), odd(2)]);
    expect(report.issues).toMatchObject([{ kind: "content", count: 2, lines: "2, 4" }]);
  });
});

describe("lines outside of the conversation", () => {
  test("the visible part of an attachment is a hidden message, everything else is state", async () => {
    const { entries, session } = await read([
      user("u1", null),
      attachment("x1", "u1", "environment", "You are in a folder"),
      attachment("x2", "x1", "prompt_snapshot"),
      answer("a1", "x2"),
    ]);
    expect(entryWith(entries, "x1")).toMatchObject({
      type: "custom_message",
      customType: "claude-code.environment",
      content: "You are in a folder",
      display: false,
      details: { renderedRole: "system" },
    });
    expect(entryWith(entries, "x2")).toMatchObject({
      type: "custom",
      customType: "claude-code.prompt_snapshot",
    });
    expect(session.context.messages.map(({ role }) => role)).toEqual(["user", "custom", "assistant"]);
  });

  test("a prompt that was queued while the agent was busy is a message of the user", async () => {
    const line = {
      ...attachment("x1", "u1", "queued_command"),
      attachment: { type: "queued_command", prompt: "also this" },
    };
    const { entries } = await read([user("u1", null), line, answer("a1", "x1")]);
    expect(entryWith(entries, "x1")).toMatchObject({ type: "custom_message", content: "also this" });
  });

  test("text that was not typed is not a user message", async () => {
    const { entries } = await read([
      user("u1", null, "caveat", { isMeta: true }),
      user("u2", "u1"),
      answer("a1", "u2"),
    ]);
    expect(entryWith(entries, "u1")).toMatchObject({
      type: "custom_message",
      customType: "claude-code.meta",
      content: "caveat",
      display: false,
    });
  });

  test("state stays at its position on the path, and gives no messages", async () => {
    const { session, entries, report } = await read([
      aside("mode", { mode: "plan" }),
      user("u1", null),
      answer("a1", "u1"),
      aside("cost-state", { totalCostUSD: 0.5 }),
      user("u2", "a1"),
    ]);
    expect(session.getBranch().map((entry) => (entry as AnyEntry).customType ?? entry.id)).toEqual([
      "claude-code.mode",
      "u1",
      "a1",
      "claude-code.cost-state",
      "u2",
    ]);
    expect((entries[3] as AnyEntry).data).toEqual({ totalCostUSD: 0.5 });
    expect(session.context.messages).toHaveLength(3);
    expect(report.branches).toBe(1);
  });

  test("a name by the user has priority over generated names", async () => {
    const { session } = await read([
      aside("summary", { summary: "made of the first lines" }),
      user("u1", null),
      aside("custom-title", { customTitle: "Mine" }),
      answer("a1", "u1"),
      aside("ai-title", { aiTitle: "Made up" }),
    ]);
    const names = [...session.tree.entries()].filter(({ type }) => type === "session_info") as AnyEntry[];
    expect(names.map(({ name }) => name)).toEqual(["made of the first lines", "Mine"]);
    expect(session.leafId).not.toBe(names.at(-1).id);
  });

  test("a summary of a conversation in another file is not a name of this one", async () => {
    const { entries } = await read([
      aside("summary", { summary: "Other", leafUuid: "elsewhere" }),
      user("u1", null),
      answer("a1", "u1"),
    ]);
    expect(entries[0]).toMatchObject({ type: "custom", customType: "claude-code.summary" });
  });

  test("bookkeeping is left out and reported with its lines", async () => {
    const { report, entries } = await read([
      aside("queue-operation"),
      aside("queue-operation"),
      user("u1", null),
      aside("last-prompt", { leafUuid: "u1" }),
      answer("a1", "u1"),
      aside("queue-operation"),
    ]);
    expect(entries).toHaveLength(2);
    expect(report.issues).toMatchObject([
      { kind: "bookkeeping", line: 1, count: 3, lines: "1-2, 6" },
      { kind: "bookkeeping", line: 4, count: 1, lines: "4" },
    ]);
  });
});

describe("the tree", () => {
  test("all branches are imported, and the leaf is the last line without a successor", async () => {
    const lines = [
      user("u1", null),
      answer("a1", "u1"),
      user("u2", "a1"),
      answer("a2", "u2"),
      user("u3", "a1"),
      answer("a3", "u3"),
    ];
    const { session, report } = await read(lines);
    expect(report.branches).toBe(2);
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
    expect(session.contextAt("a2").sources).toEqual(["u1", "a1", "u2", "a2"]);
  });

  test("if the last line is not the leaf, a leaf entry names the leaf", async () => {
    const lines = [user("u1", null), answer("a1", "u1"), user("m1", "u1", "note", { isMeta: true })];
    const { session, entries } = await read(lines);
    expect(session.leafId).toBe("a1");
    expect(entries.at(-1)).toMatchObject({ type: "leaf", targetId: "a1" });
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
  });

  test("a line above its parent is moved after it", async () => {
    const { entries } = await read([answer("a1", "u1"), user("u1", null), user("u2", "a1")]);
    expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "u2"]);
  });

  test("an unknown parent makes a root, and is reported", async () => {
    const { entries, report } = await read([
      user("u1", null),
      answer("a1", "u1"),
      user("u2", "gone"),
      answer("a2", "u2"),
    ]);
    expect(entryWith(entries, "u2").parentId).toBeNull();
    expect(report.issues).toMatchObject([{ kind: "phantom-parent", lines: "3" }]);
  });

  test("lines whose parents form a circle are all imported, and the circle is reported", async () => {
    const { entries, report } = await read([
      user("u1", "a2"),
      answer("a1", "u1"),
      user("u2", "a1"),
      answer("a2", "u2"),
      user("self", "self"),
    ]);
    expect(entries.map(({ id }) => id).sort()).toEqual(["a1", "a2", "self", "u1", "u2"]);
    expect(report.issues).toMatchObject([{ kind: "cycle", count: 2 }]);
  });

  test("a repeated line counts once; another line with the same id is kept under a new id", async () => {
    const first = user("u1", null);
    const { entries, report } = await read([
      first,
      answer("a1", "u1"),
      first,
      user("u1", null, "something else"),
    ]);
    expect(entries.map((entry) => (entry as AnyEntry).message.content)).toContain("something else");
    expect(entries).toHaveLength(3);
    expect(report.issues.map(({ kind, lines }) => [kind, lines])).toEqual([
      ["duplicate-line", "3"],
      ["duplicate-id", "4"],
    ]);
  });

  test("an unknown type keeps its position if it has one, and always its content", async () => {
    const strange = { ...user("s1", "u1"), type: "strange", message: undefined, says: "something" };
    const { entries, report } = await read([
      user("u1", null),
      strange,
      answer("a1", "s1"),
      aside("odd", { says: "more" }),
    ]);
    expect(entryWith(entries, "s1")).toMatchObject({
      type: "custom",
      customType: "claude-code.strange",
      data: { says: "something" },
    });
    expect(entryWith(entries, "a1").parentId).toBe("s1");
    expect(entries.at(-1)).toMatchObject({ customType: "claude-code.odd", data: { says: "more" } });
    expect(report.issues).toMatchObject([{ kind: "unknown-type", lines: "2, 4" }]);
  });

  test("unreadable lines affect no other line, and a whole line after a torn one counts", async () => {
    const { entries, report } = await read([
      user("u1", null),
      "{ not json",
      "[1, 2]",
      `{"type":"user","uuid":"torn","mess${JSON.stringify(answer("a1", "u1"))}`,
      user("u2", "a1"),
    ]);
    expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "u2"]);
    expect(report.issues.map(({ kind, lines }) => [kind, lines])).toEqual([
      ["bad-line", "2-3"],
      ["salvaged", "4"],
    ]);
  });

  test("a line with readable ids and unreadable content keeps its successors connected", async () => {
    const damaged = JSON.stringify(answer("a1", "u1")).replace('"text":"a1"', '"text":"\\x"');
    const { entries, report } = await read([user("u1", null), damaged, user("u2", "a1")]);
    expect(entries).toHaveLength(3);
    expect(entries[1]).toMatchObject({
      type: "custom",
      customType: "claude-code.unreadable",
      parentId: "u1",
    });
    expect(entryWith(entries, "u2").parentId).toBe(entries[1]!.id);
    expect(report.issues).toMatchObject([{ kind: "unreadable-content", lines: "2" }]);
  });
});

describe("a file larger than the memory limit", () => {
  test("gives the same result as a small one", async () => {
    const lines = [
      aside("mode", { mode: "plan", 'escaped "key"': "\u2028" }),
      user("u1", null, 'with "quotes", \\ and {brackets}'),
      answer("a1", "u1", thinking("hm"), { id: "m" }),
      answer("a2", "a1", call("c1", { text: "}]{[" }), { id: "m" }),
      result("r1", "a2", "c1"),
      "{ torn",
      boundary("b", "r1", ["r1"], "s"),
      summary("s", "b"),
      { ...user("u\u00e92", "s"), isMeta: true },
      answer("a3", "s"),
    ];
    const small = await read(lines);
    const filler = attachment("filler", null, "filler", "x".repeat(17 << 20));
    const large = await read([...lines, filler]);
    expect(large.entries.filter(({ id, type }) => id !== "filler" && type !== "leaf")).toEqual(
      small.entries.filter(({ type }) => type !== "leaf"),
    );
    expect(large.report.issues).toEqual(small.report.issues);
  });
});

describe("compactions", () => {
  const before = [
    user("u1", null),
    answer("a1", "u1"),
    user("u2", "a1"),
    answer("a2", "u2"),
    user("u3", "a2"),
    answer("a3", "u3"),
  ];

  test("boundary and summary are one compaction under the previous leaf, with its kept messages", async () => {
    const lines = [
      ...before,
      boundary("b", "a3", ["u3", "a3"], "s"),
      summary("s", "b"),
      user("u4", "s"),
      answer("a4", "u4"),
    ];
    const { entries, session, report } = await read(lines);
    expect(entryWith(entries, "s")).toMatchObject({
      type: "compaction",
      parentId: "a3",
      summary: "Summary s",
      firstKeptEntryId: "u3",
      tokensBefore: 3_000,
      details: { reason: "manual", settings: { provider: "anthropic", modelId: "claude-test" } },
    });
    expect(entryWith(entries, "u4").parentId).toBe("s");
    expect(report).toMatchObject({ compactions: 1, branches: 1, issues: [] });
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
    expect(session.contextAt("a3").sources).toEqual(["u1", "a1", "u2", "a2", "u3", "a3"]);
  });

  test("attachments between boundary and summary stay between them and the next message", async () => {
    const lines = [
      ...before,
      boundary("b", "a3", ["a3"], "s"),
      attachment("x1", "b", "session_context", "status"),
      attachment("x2", "x1", "date", "today"),
      summary("s", "x2"),
      user("u4", "s"),
    ];
    const { session } = await read(lines);
    expect(idsOfPath(session).slice(-5)).toEqual(["a3", "s", "x1", "x2", "u4"]);
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
  });

  test("a compaction that keeps nothing hides everything before it", async () => {
    const lines = [...before, boundary("b", "a3"), summary("s", "b"), user("u4", "s")];
    const { session, entries } = await read(lines);
    expect(entryWith(entries, "s").firstKeptEntryId).toBe("s");
    expect(said(session.context.messages)).toEqual(["compactionSummary: Summary s", "user: u4"]);
  });

  test("a compaction whose leaf was never written follows the previous message", async () => {
    const { session, report } = await read([
      ...before,
      boundary("b", "gone"),
      summary("s", "b"),
      user("u4", "s"),
    ]);
    expect(idsOfPath(session)).toEqual([...idsOfPath((await read(before)).session), "s", "u4"]);
    expect(said(session.context.messages)).toEqual(["compactionSummary: Summary s", "user: u4"]);
    expect(report.issues).toMatchObject([{ kind: "bridged", lines: `${before.length + 1}` }]);
  });

  test("lines between kept lines are left out of the context, and stay in the log", async () => {
    const lines = [...before, boundary("b", "a3", ["u2", "a3"], "s"), summary("s", "b"), user("u4", "s")];
    const { session, entries } = await read(lines);
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
    expect(said(session.context.messages)).toEqual([
      "compactionSummary: Summary s",
      "user: u2",
      "assistant: a3",
      "user: u4",
    ]);
    expect(entryWith(entries, "a2")).toBeDefined();
  });

  test("older files name the first and the last kept line", async () => {
    const segment = { preservedSegment: { headUuid: "a2", anchorUuid: "s", tailUuid: "a3" } };
    const { session } = await read([
      ...before,
      boundary("b", "a3", [], undefined, segment),
      summary("s", "b"),
      user("u4", "s"),
    ]);
    expect(said(session.context.messages)).toEqual([
      "compactionSummary: Summary s",
      "assistant: a2",
      "user: u3",
      "assistant: a3",
      "user: u4",
    ]);
  });

  test("a line that follows a kept one after the compaction follows the compaction", async () => {
    const lines = [
      ...before,
      boundary("b", "a3", ["u3", "a3"], "s"),
      summary("s", "b"),
      user("u4", "a3"),
      answer("a4", "u4"),
    ];
    const { session } = await read(lines);
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
  });

  test("a line that follows a kept line other than the last has no later kept lines in its context", async () => {
    const lines = [...before, boundary("b", "a3", ["u3", "a3"], "s"), summary("s", "b"), answer("a4", "u3")];
    const { session } = await read(lines);
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
    expect(said(session.context.messages)).toEqual([
      "compactionSummary: Summary s",
      "user: u3",
      "assistant: a4",
    ]);
  });

  test("an answer of several lines that a compaction keeps is left out once", async () => {
    const { session, entries } = await read([
      user("u1", null),
      answer("a1", "u1", "one", { id: "m" }),
      answer("a2", "a1", "two", { id: "m" }),
      boundary("b", "a2", ["u1", "a1", "a2"], "s"),
      summary("s", "b"),
      answer("a3", "u1"),
    ]);
    expect(said(session.context.messages)).toEqual([
      "compactionSummary: Summary s",
      "user: u1",
      "assistant: a3",
    ]);
    expect(entries.filter(({ type }) => type === "context_edit")).toHaveLength(1);
  });

  test("the newest of several compactions is used", async () => {
    const lines = [
      ...before,
      boundary("b", "a3", ["a3"], "s"),
      summary("s", "b"),
      user("u4", "s"),
      answer("a4", "u4"),
      boundary("b2", "a4", ["u4", "a4"], "s2"),
      summary("s2", "b2"),
      user("u5", "s2"),
    ];
    const { session, report } = await read(lines);
    expect(report.compactions).toBe(2);
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
  });

  test("directly after a compaction, the compaction is the leaf", async () => {
    const branch = [user("u9", "a1"), answer("a9", "u9")];
    const lines = [...branch, ...before, boundary("b", "a3", ["a3"], "s"), summary("s", "b")];
    const { session } = await read(lines);
    expect(session.leafId).toBe("s");
    expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
  });

  test("kept lines that are not above the compaction are reported", async () => {
    const { report, session } = await read([
      ...before,
      user("b1", "u1"),
      boundary("b", "a3", ["b1"], "s"),
      summary("s", "b"),
      user("u4", "s"),
    ]);
    expect(report.issues).toMatchObject([{ kind: "kept-elsewhere", id: "s" }]);
    expect(said(session.context.messages)).toEqual(["compactionSummary: Summary s", "user: u4"]);
  });

  test("a boundary without a summary compacts nothing, and is reported", async () => {
    const { report, session } = await read([...before, boundary("b", "a3", ["a3"], "s"), user("u4", "b")]);
    expect(report.issues).toMatchObject([{ kind: "no-summary", lines: "7" }]);
    expect(report.compactions).toBe(0);
    expect(session.context.messages).toHaveLength(7);
  });
});

describe("sub-agents and forks", () => {
  const main = [
    user("u1", null),
    answer("a1", "u1", call("c1", { prompt: "do the work" }, "Agent"), { stop: "tool_use" }),
    result("r1", "a1", "c1", "done", { toolUseResult: { agentId: "abc" } }),
    answer("a2", "r1"),
  ];
  const side = (fields: Line): Line[] =>
    [user("s1", null, "do the work"), answer("s2", "s1", "working")].map((line) => ({
      ...line,
      isSidechain: true,
      ...fields,
    }));

  test("a run in a separate file is a separate session, linked to its call and named", async () => {
    const folder = scratchFolder();
    writeSession(main, folder);
    const path = writeLines(join(folder, SESSION, "subagents", "agent-abc.jsonl"), side({ agentId: "abc" }));
    writeLines(path.replace(".jsonl", ".meta.json"), [
      { toolUseId: "c1", description: "sub work", agentType: "general" },
    ]);
    const store = scratchStore();
    const reports = await importAll(folder, store);
    expect(reports.map(({ sessionId }) => sessionId)).toEqual([SESSION, `${SESSION}.agent-abc`]);
    const { session } = await opened(store, reports[1]!);
    expect(session.header?.parent).toEqual({ sessionId: SESSION, entryId: "a1", kind: "subagent" });
    expect(said(session.context.messages)).toEqual(["user: do the work", "assistant: working"]);
    expect([...session.tree.entries()].some((entry) => (entry as AnyEntry).name === "sub work")).toBe(true);

    const alone = await imported(path);
    expect(alone.session.header?.parent).toEqual({ sessionId: SESSION, entryId: "a1", kind: "subagent" });
  });

  test("a run between the lines of a conversation is a separate session, linked by its prompt", async () => {
    const store = scratchStore();
    const lines = [...main.slice(0, 2), ...side({}), ...main.slice(2)];
    const reports = await importAll(writeSession(lines), store);
    expect(reports).toHaveLength(2);
    const [whole, run] = await Promise.all(reports.map((report) => opened(store, report)));
    expect(said(whole!.session.context.messages)).toEqual(rebuildConversation(lines));
    expect(run!.session.header?.parent).toEqual({ sessionId: SESSION, entryId: "a1", kind: "subagent" });
    expect(run!.entries.map(({ id }) => id)).toEqual(["s1", "s2"]);
  });

  test("a fork made by the library has the ids of its original, so its cost counts once", async () => {
    const other = "99999999-2222-4333-8444-555555555555";
    const copy = [user("f1", null, "u1"), answer("f2", "f1", "a1", { id: "msg_a1" })].map((line, at) => ({
      ...line,
      forkedFrom: { sessionId: SESSION, messageUuid: at === 0 ? "u1" : "a1" },
    }));
    const { session, entries } = await read([...copy, user("f3", "f2")], other);
    expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "f3"]);
    expect(session.header?.parent).toEqual({ sessionId: SESSION, entryId: "a1", kind: "fork" });
  });

  test("a fork that kept the session id of its lines is linked to the file of that name, whichever is older", async () => {
    const folder = scratchFolder();
    const store = scratchStore();
    const shared = [user("u1", null), answer("a1", "u1")];
    const other = "99999999-2222-4333-8444-555555555555";
    const fork = writeLines(join(folder, `${other}.jsonl`), [...shared, user("u3", "a1")]);
    const original = writeSession([...shared, user("u2", "a1"), answer("a2", "u2")], folder);
    utimesSync(fork, 1_000, 1_000);
    utimesSync(original, 2_000, 2_000);
    const reports = await importAll(folder, store);
    const parents = reports.map(({ sessionId, parent }) => [sessionId, parent]);
    expect(Object.fromEntries(parents)).toEqual({
      [SESSION]: null,
      [other]: { sessionId: SESSION, entryId: "a1", kind: "fork" },
    });
  });

  test("a fork made on the command line is recognized by the lines that it shares with an older file", async () => {
    const folder = scratchFolder();
    const store = scratchStore();
    const shared = [user("u1", null), answer("a1", "u1")];
    writeSession([...shared, user("u2", "a1"), answer("a2", "u2")], folder);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const other = "99999999-2222-4333-8444-555555555555";
    const inFork = { sessionId: other };
    writeLines(join(folder, `${other}.jsonl`), [
      ...shared.map((line) => ({ ...line, ...inFork })),
      user("u3", "a1", "u3", inFork),
    ]);
    const reports = await importAll(folder, store);
    const { session } = await opened(store, reports[1]!);
    expect(session.id).toBe(other);
    expect(session.header?.parent).toEqual({ sessionId: SESSION, entryId: "a1", kind: "fork" });
  });
});

const corpus = fileURLToPath(new URL("../../../../shared/corpus/claude-code", import.meta.url));

describe.skipIf(!existsSync(corpus))("real files of Claude Code (skipped without the corpus)", () => {
  const files = existsSync(corpus)
    ? readdirSync(corpus, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"))
    : [];

  test.each(files)(
    "%s: each line is an entry or in the report, and the context follows the format",
    async (name) => {
      const lines: Line[] = readFileSync(join(corpus, name), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      const { session, entries, report } = await imported(join(corpus, name));
      const ids = new Set(entries.map(({ id }) => id));
      const told = new Set(report.issues.flatMap((issue) => linesIn(issue.lines)));
      const answers = new Map(
        lines.map((line) => [(line["message"] as Line | undefined)?.["id"], line["uuid"]] as const).reverse(),
      );
      lines.forEach((line, at) => {
        const id = (
          line["type"] === "assistant" ? answers.get((line["message"] as Line)["id"]) : line["uuid"]
        ) as string;
        const isKept =
          ids.has(id) ||
          line["subtype"] === "compact_boundary" ||
          /^(mode|cost-state)$/.test(String(line["type"]));
        expect(isKept || told.has(at + 1), `line ${at + 1}`).toBe(true);
      });
      const own = lines.map((line) => ({ ...line, isSidechain: false }));
      expect(said(session.context.messages)).toEqual(rebuildConversation(own));
      expect(requestProblems(session.context)).toEqual([]);
    },
  );
});

/** The numbers in `3, 7-9`. */
function linesIn(lines: string): number[] {
  return lines.split(", ").flatMap((run) => {
    const [from, to = from] = run.split("-").map(Number);
    return Array.from({ length: to! - from! + 1 }, (_, at) => from! + at);
  });
}
