import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { toAnthropic, toOpenaiChat, toOpenaiResponses } from "@espalier/interop";
import { messageText } from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import {
  call,
  injected,
  type Line,
  message,
  OTHER,
  output,
  prompt,
  Rollout,
  reasoning,
  rolloutName,
  THREAD,
} from "./codex-lines.ts";
import { rebuildThread } from "./codex-rebuild.ts";
import {
  type AnyEntry,
  type Imported,
  importAll,
  imported,
  opened,
  said,
  scratchFolder,
  scratchStore,
  writeLines,
  writeRollout,
} from "./import-scratch.ts";
import { requestProblems } from "./request-problems.ts";

const SEGMENT = "01a1ffe6-7e63-7003-b4a1-a8a0b5aa897f";

const read = (rollout: Rollout, folder = scratchFolder()) => imported(writeRollout(rollout.lines, folder));

const typesOf = (entries: readonly AnyEntry[]): string[] =>
  entries.map(({ type, message: said, customType }) => said?.role ?? customType ?? type);

describe("messages of Codex", () => {
  const tooled = new Rollout({ ordinal: 0 })
    .meta()
    .turn()
    .items(prompt("run it"), reasoning("I should"), call("c1", { cmd: "ls" }))
    .record()
    .event("item_completed", { item: { type: "CommandExecution" } })
    .items(output("c1"), message("assistant", "done"))
    .record();

  test("the items of one response become one message, with its cost", async () => {
    const { entries, session, report } = await read(tooled);
    expect(typesOf(entries)).toEqual([
      "codex.session_meta",
      "model_change",
      "codex.turn_context",
      "user",
      "assistant",
      "toolResult",
      "assistant",
    ]);
    const [, , , , first, result] = entries as AnyEntry[];
    expect(result.message.toolName).toBe("exec_command");
    expect(first.message).toMatchObject({
      content: [
        { type: "thinking", thinking: "I should" },
        { type: "toolCall", id: "c1", name: "exec_command", arguments: { cmd: "ls" } },
      ],
      provider: "openai",
      model: "gpt-test",
      stopReason: "toolUse",
      usage: { input: 70, cacheRead: 30, output: 12, totalTokens: 112 },
    });
    expect(said(session.context.messages)).toEqual(rebuildThread(tooled.lines));
    expect(session.context.model).toEqual({ provider: "openai", modelId: "gpt-test" });
    expect(report.issues).toMatchObject([{ kind: "repeats", lines: "7" }]);
  });

  test("the header names the source of the thread", async () => {
    const folder = scratchFolder();
    const { session } = await read(tooled, folder);
    const digest = createHash("sha256")
      .update(readFileSync(join(folder, rolloutName())))
      .digest("hex");
    expect(session.header).toMatchObject({
      id: THREAD,
      cwd: "/home/me/project",
      importedFrom: { agent: "codex", version: "0.169.0", id: THREAD, digest },
    });
  });

  test("encrypted reasoning is kept next to the message for its provider, and never sent", async () => {
    const { entries, session } = await read(tooled);
    const answer = (entries as AnyEntry[]).find(({ message: said }) => said?.role === "assistant");
    expect(answer.details).toEqual({
      provider: "openai",
      encryptedReasoning: [{ id: "rs_I should", encrypted_content: "secret I should" }],
    });
    expect(JSON.stringify(answer.message)).not.toContain("secret");
    for (const write of [toAnthropic, toOpenaiChat, toOpenaiResponses])
      expect(JSON.stringify(write(session.context))).not.toContain("secret");
  });

  test("reasoning without visible text is not thinking", async () => {
    const { entries } = await read(
      new Rollout({ ordinal: 0 }).meta().items(prompt("hi"), reasoning(""), message("assistant", "yes")),
    );
    expect((entries as AnyEntry[]).at(-1).message.content).toEqual([{ type: "text", text: "yes" }]);
  });

  test("in new files each part says if the user wrote it", async () => {
    const mixed = message("user", "", {
      content: [
        { type: "input_text", text: "<environment_context>here</environment_context>" },
        { type: "input_text", text: "hello" },
        { type: "input_text", text: "you" },
      ],
      internal_chat_message_metadata_passthrough: {
        content_item_kinds: ["environments.environment_context", "user.text", "user.text"],
      },
    });
    const rollout = new Rollout({ ordinal: 0 })
      .meta()
      .items(
        message("developer", "be kind"),
        injected("you are here"),
        mixed,
        prompt("<environment_context> is a tag, isn't it?"),
      );
    const { entries } = await read(rollout);
    expect(typesOf(entries)).toEqual([
      "codex.session_meta",
      "codex.developer",
      "codex.environments.environment_context",
      "codex.environments.environment_context",
      "user",
      "user",
    ]);
    expect(entries[1] as AnyEntry).toMatchObject({
      type: "custom_message",
      content: "be kind",
      display: false,
    });
    expect(messageText((entries[4] as AnyEntry).message)).toBe("hello\nyou");
  });

  test("in old files the agent's additions are recognized by their beginning, unless an event says that the user wrote them", async () => {
    const rollout = new Rollout()
      .meta()
      .items(
        message("user", "<environment_context>here</environment_context>"),
        message("user", "# AGENTS.md instructions for here"),
        message("user", "hello"),
      )
      .event("user_message", { message: "hello" })
      .items(message("user", "<user_instructions> is what I type"))
      .event("user_message", { message: "<user_instructions> is what I type" });
    const { entries } = await read(rollout);
    expect(typesOf(entries)).toEqual([
      "codex.session_meta",
      "codex.environment_context",
      "codex.agents_md",
      "user",
      "user",
    ]);
  });

  test("results are texts or parts, or are marked as failed", async () => {
    const rollout = new Rollout({ ordinal: 0 })
      .meta()
      .items(prompt("go"), call("c1"), call("c2"), call("c3"), call("c4"))
      .items(
        output("c2", [
          { type: "input_text", text: "a picture" },
          { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=" },
        ]),
        output("c1", "plain"),
        output("c3", { content: "it broke", success: false }),
        output("c4", { odd: true }),
      );
    const { entries, session } = await read(rollout);
    const results = (entries as AnyEntry[])
      .filter(({ message: said }) => said?.role === "toolResult")
      .map(({ message: said }) => said);
    expect(results.map(({ content, isError }) => [content[0].text, isError])).toEqual([
      ["a picture", false],
      ["plain", false],
      ["it broke", true],
      ['{"odd":true}', false],
    ]);
    expect(results[0].content[1]).toEqual({ type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" });
    expect(requestProblems(session.context)).toEqual([]);
  });

  test("calls that ran on this machine are calls, of every kind; those that the provider ran are for the provider", async () => {
    const rollout = new Rollout({ ordinal: 0 }).meta().items(
      prompt("go"),
      { type: "custom_tool_call", call_id: "c1", name: "apply_patch", input: "*** Begin" },
      { type: "custom_tool_call_output", call_id: "c1", output: "ok" },
      { type: "local_shell_call", call_id: "c2", action: { type: "exec", command: ["ls"] } },
      output("c2"),
      { type: "tool_search_call", call_id: "c3", arguments: { query: "x" } },
      { type: "tool_search_output", call_id: "c3", tools: [{ name: "found" }] },
      {
        type: "web_search_call",
        id: "ws1",
        status: "completed",
        action: { type: "search", query: "trees" },
      },
      message("assistant", "done"),
    );
    const { entries, session } = await read(rollout);
    const calls = (entries as AnyEntry[]).flatMap(({ message: said }) =>
      said?.role === "assistant" ? said.content : [],
    );
    expect(
      calls.filter(({ type }) => type === "toolCall").map(({ name, arguments: input }) => [name, input]),
    ).toEqual([
      ["apply_patch", { input: "*** Begin" }],
      ["local_shell", { type: "exec", command: ["ls"] }],
      ["tool_search", { query: "x" }],
    ]);
    expect(calls.at(-2)).toMatchObject({
      type: "openai-responses.web_search_call",
      native: { provider: "openai" },
    });
    expect(requestProblems(session.context)).toEqual([]);
    expect(JSON.stringify(toAnthropic(session.context))).not.toContain("ws1");
  });

  test("changes of model and effort are entries; a turn that repeats the previous one is reported", async () => {
    const effort = (level: string | null) => ({
      collaboration_mode: { settings: { reasoning_effort: level } },
    });
    const rollout = new Rollout({ ordinal: 0 })
      .meta()
      .turn("one", effort(null))
      .items(prompt("a"), message("assistant", "b"))
      .turn("one", effort(null))
      .items(prompt("c"), message("assistant", "d"))
      .turn("two", effort("high"))
      .event("thread_settings_applied", { thread_settings: { model: "two", model_provider_id: "azure" } });
    const { entries, report } = await read(rollout);
    expect(
      typesOf(entries).filter((type) => type.endsWith("_change") || type === "codex.turn_context"),
    ).toEqual([
      "model_change",
      "codex.turn_context",
      "model_change",
      "thinking_level_change",
      "codex.turn_context",
      "model_change",
    ]);
    expect((entries as AnyEntry[]).at(-1)).toMatchObject({ provider: "azure", modelId: "two" });
    expect(report.issues).toMatchObject([{ kind: "repeats", lines: "5" }]);
  });

  test("state and unknown content are kept under their own names", async () => {
    const rollout = new Rollout({ ordinal: 0 })
      .meta()
      .items(prompt("hi"))
      .add("world_state", { full: true, state: { a: 1 } })
      .event("turn_aborted", { reason: "interrupted" })
      .add("brand_new", { b: 2 })
      .items({ type: "brand_new_item", c: 3 });
    const { entries, report } = await read(rollout);
    expect(typesOf(entries).slice(2)).toEqual([
      "codex.world_state",
      "codex.turn_aborted",
      "codex.brand_new",
      "codex.brand_new_item",
    ]);
    expect(report.issues.map(({ kind, lines }) => [kind, lines])).toEqual([
      ["unknown-type", "5"],
      ["unknown-type", "6"],
    ]);
  });

  test("messages between agents are notes, and items of the agent's setup are state", async () => {
    const rollout = new Rollout({ ordinal: 0 })
      .meta()
      .items(
        { type: "additional_tools", tools: [] },
        { type: "agent_message", author: "reviewer", content: [{ type: "input_text", text: "look here" }] },
        { type: "agent_message", author: "reviewer", content: [{ type: "encrypted", data: "…" }] },
      );
    const { entries } = await read(rollout);
    expect(typesOf(entries).slice(1)).toEqual([
      "codex.additional_tools",
      "codex.agent_message",
      "codex.agent_message",
    ]);
    expect(entries[2]).toMatchObject({
      content: "look here",
      display: true,
      details: { author: "reviewer" },
    });
    expect(entries[3]).toMatchObject({ type: "custom", data: { author: "reviewer" } });
  });

  test("files of the first versions have neither envelope nor times", async () => {
    const folder = scratchFolder();
    const lines = [
      { id: THREAD, timestamp: "2025-05-01T10:00:00.000Z", instructions: null },
      { record_type: "state" },
      { type: "message", role: "user", content: [{ type: "input_text", text: "hello" }] },
      { type: "function_call", name: "shell", arguments: "{}", call_id: "c1" },
      { type: "function_call_output", call_id: "c1", output: "ok" },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "done" }] },
    ];
    const { session, report } = await imported(writeRollout(lines, folder));
    expect(session.header).toMatchObject({ id: THREAD, timestamp: "2025-05-01T10:00:00.000Z" });
    expect(report.issues.map(({ kind }) => kind)).toEqual(["unknown-type"]);
    expect(said(session.context.messages)).toEqual([
      "user: hello",
      "assistant: ",
      "toolResult: ok",
      "assistant: done",
    ]);
  });

  test("the name of a thread is in an event, or in the index next to the folders", async () => {
    const named = await read(
      new Rollout({ ordinal: 0 })
        .meta()
        .items(prompt("hi"))
        .event("thread_name_updated", { thread_name: "First" }),
    );
    expect(named.entries.at(-1)).toMatchObject({ type: "session_info", name: "First" });

    const home = scratchFolder();
    writeLines(
      join(home, "sessions", "2026", rolloutName()),
      new Rollout({ ordinal: 0 }).meta().items(prompt("hi")).lines,
    );
    writeLines(join(home, "session_index.jsonl"), [
      { id: THREAD, thread_name: "Old" },
      { id: THREAD, thread_name: "New" },
    ]);
    const store = scratchStore();
    const [report] = await importAll("codex", store, { env: { CODEX_HOME: home } });
    const { entries } = await opened(store, report!);
    expect(entries.at(-1)).toMatchObject({ type: "session_info", name: "New" });
    expect(await importAll("codex", store, { env: { CODEX_HOME: home } })).toMatchObject([{ added: 0 }]);
  });
});

describe("tokens of responses", () => {
  test("are counted once per response in old files, which repeat counts and leave some empty", async () => {
    const rollout = new Rollout()
      .meta()
      .items(message("user", "hi"))
      .event("token_count", { info: null })
      .items(message("assistant", "one"))
      .count(112)
      .count(112)
      .items(message("user", "more"))
      .count(112)
      .items(message("assistant", "two"))
      .count(224);
    const { entries } = await read(rollout);
    expect((entries as AnyEntry[]).filter(({ message: said, usage }) => said?.usage ?? usage)).toHaveLength(
      2,
    );
  });

  test("are counted once in new files, which have them twice", async () => {
    const { entries } = await read(
      new Rollout({ ordinal: 0 }).meta().items(prompt("hi"), message("assistant", "one")).record().count(112),
    );
    expect((entries as AnyEntry[]).filter(({ message: said, usage }) => said?.usage || usage)).toHaveLength(
      1,
    );
  });

  test("that belong to no answer are separate entries", async () => {
    const { entries } = await read(
      new Rollout({ ordinal: 0 })
        .meta()
        .items(prompt("hi"), call("c1"), output("c1"))
        .record()
        .items(prompt("next")),
    );
    expect(entries.filter(({ type }) => type === "usage")).toMatchObject([
      { kind: "codex", usage: { totalTokens: 112 } },
    ]);
  });
});

describe("compactions and roll-backs", () => {
  const start = () =>
    new Rollout()
      .meta()
      .turn()
      .items(message("user", "one"), message("assistant", "ONE"))
      .count(112)
      .items(message("user", "two"));

  test("kept messages are repeated after a compaction if they are not the end of the conversation", async () => {
    const rollout = start()
      .items(message("assistant", "TWO"))
      .count(224)
      .count(336)
      .add("compacted", {
        message: "The summary",
        replacement_history: [message("user", "one"), message("user", "two"), message("user", "The summary")],
      })
      .items(message("user", "three"), message("assistant", "THREE"));
    const { entries, session, report } = await read(rollout);
    expect(said(session.context.messages)).toEqual(rebuildThread(rollout.lines));
    const compaction = (entries as AnyEntry[]).find(({ type }) => type === "compaction");
    expect(compaction).toMatchObject({
      summary: "The summary",
      firstKeptEntryId: compaction.id,
      tokensBefore: 112,
      usage: { totalTokens: 112 },
      details: { settings: { provider: "openai", modelId: "gpt-test", thinkingLevel: "off" } },
    });
    expect(report.compactions).toBe(1);
    expect(requestProblems(session.context)).toEqual([]);
  });

  test("kept messages are the kept tail if they are the end", async () => {
    const rollout = start()
      .add("compacted", {
        message: "The summary",
        replacement_history: [message("user", "two"), message("user", "The summary")],
      })
      .items(message("assistant", "TWO"));
    const { entries, session } = await read(rollout);
    const kept = (entries as AnyEntry[]).find(({ message: said }) => said?.content === "two");
    expect(entries.find(({ type }) => type === "compaction")).toMatchObject({ firstKeptEntryId: kept.id });
    expect(said(session.context.messages)).toEqual(rebuildThread(rollout.lines));
  });

  test("without a list of kept messages, the user's messages are kept", async () => {
    const rollout = start().items(message("assistant", "TWO")).add("compacted", { message: "The summary" });
    const { session } = await read(rollout);
    expect(said(session.context.messages)).toEqual([
      "compactionSummary: The summary",
      "user: one",
      "user: two",
    ]);
    expect(said(session.context.messages)).toEqual(rebuildThread(rollout.lines));
  });

  test("the model's summary answer is not part of the conversation, and its tokens are those of the compaction", async () => {
    const rollout = new Rollout({ ordinal: 0 })
      .meta()
      .items(prompt("one"), message("assistant", "ONE"))
      .record()
      .add("response_item", message("assistant", "The summary"), { metadata: { compaction_output: true } })
      .record("resp_c")
      .add("compacted", {
        message: "The summary",
        replacement_history: [prompt("one")],
        compaction_response_id: "resp_c",
      });
    const { entries, session } = await read(rollout);
    expect(said(session.context.messages)).toEqual(["compactionSummary: The summary", "user: one"]);
    expect(entries.find(({ type }) => type === "compaction")).toMatchObject({ usage: { totalTokens: 112 } });
    expect(entries.filter(({ type }) => type === "usage")).toEqual([]);
  });

  const opaque = (retained?: Line) =>
    new Rollout({ ordinal: 0 })
      .meta()
      .items(prompt("one"), message("assistant", "ONE"), prompt("two"), message("assistant", "TWO"))
      .add("compacted", {
        message: "",
        replacement_history: [prompt("two"), { type: "compaction", id: "cmp_1", encrypted_content: "BLOB" }],
        ...(retained ? { retained_context: retained } : {}),
      })
      .items(prompt("three"));

  test("a summary that only its provider can read is kept for that provider, and excerpts replace it", async () => {
    const retained = {
      user_messages: [
        { text: "kept one", order: 0 },
        { text: "kept two", order: 2 },
      ],
      assistant_messages: [{ text: "KEPT", order: 1 }],
    };
    for (const [rollout, excerpts] of [
      [opaque(retained), ["- User: kept one", "- Assistant: KEPT", "- User: kept two"]],
      [opaque(), ["- User: one", "- User: two"]],
    ] as const) {
      const { entries, session, report } = await read(rollout);
      const compaction = (entries as AnyEntry[]).find(({ type }) => type === "compaction");
      expect(compaction.summary).toContain(excerpts.join("\n"));
      expect(compaction.details.codex).toMatchObject({
        provider: "openai",
        opaque: [{ encrypted_content: "BLOB" }],
      });
      expect(report.issues).toMatchObject([{ kind: "opaque-summary", lines: "6" }]);
      expect(said(session.context.messages).slice(1)).toEqual(["user: two", "user: three"]);
      for (const write of [toAnthropic, toOpenaiChat, toOpenaiResponses])
        expect(JSON.stringify(write(session.context))).not.toContain("BLOB");
    }
  });

  test("a summarizer's summary of the originals replaces it on request", async () => {
    const path = writeRollout(opaque().lines);
    const seen: string[][] = [];
    const { entries } = await imported(path, {
      summarize: async (messages) => {
        seen.push(said(messages));
        return "A fresh summary";
      },
    });
    expect(seen).toEqual([["user: one", "assistant: ONE", "user: two", "assistant: TWO"]]);
    expect(entries.find(({ type }) => type === "compaction")).toMatchObject({ summary: "A fresh summary" });
    const failed = await imported(path, { summarize: () => Promise.reject(new Error("no network")) });
    expect((failed.entries as AnyEntry[]).find(({ type }) => type === "compaction").summary).toContain(
      "- User: one",
    );
    expect(failed.report.issues.map(({ message: told }) => told).join()).toContain("no network");
  });

  test("rolled back turns stay as a branch", async () => {
    const rollout = new Rollout()
      .meta()
      .turn()
      .event("task_started")
      .items(message("user", "one"), message("assistant", "ONE"))
      .event("task_started")
      .items(message("developer", "again"), message("user", "two"), message("assistant", "TWO"))
      .event("task_started")
      .items(message("user", "three"), message("assistant", "THREE"))
      .event("thread_rolled_back", { num_turns: 2 })
      .items(message("user", "four"), message("assistant", "FOUR"));
    const { entries, session, report } = await read(rollout);
    expect(report.branches).toBe(2);
    expect(said(session.context.messages)).toEqual(rebuildThread(rollout.lines));
    expect(said(session.context.messages)).toEqual([
      "user: one",
      "assistant: ONE",
      "user: four",
      "assistant: FOUR",
    ]);
    const taken = (entries as AnyEntry[]).find(({ message: said }) => said?.content?.[0]?.text === "THREE");
    expect(said(session.contextAt(taken.id).messages)).toHaveLength(6);
    expect(session.context.messages.some(({ role }) => role === "custom")).toBe(false);
  });

  test("after a roll-back at the end, the leaf is its target", async () => {
    const rollout = start().items(message("assistant", "TWO")).event("thread_rolled_back", { num_turns: 1 });
    const { session } = await read(rollout);
    expect(said(session.context.messages)).toEqual(["user: one", "assistant: ONE"]);
  });

  test("nothing of undone turns and of earlier compactions is in a compaction without a list of kept messages", async () => {
    const rollout = start()
      .items(message("assistant", "TWO"))
      .event("thread_rolled_back", { num_turns: 1 })
      .items(message("user", "three"), message("assistant", "THREE"))
      .event("thread_rolled_back", { num_turns: 2 })
      .items(message("user", "<environment_context>new</environment_context>"), message("user", "four"))
      .add("compacted", { message: "The first summary" });
    const { session } = await read(rollout);
    expect(said(session.context.messages).slice(1)).toEqual(["user: four"]);
    rollout.items(message("assistant", "FOUR"), message("user", "five"));
    const again = await read(rollout.add("compacted", { message: "The second summary" }));
    expect(said(again.session.context.messages).slice(1)).toEqual(["user: four", "user: five"]);
  });

  test("a compaction without a list keeps as many prompts as Codex, and always the newest", async () => {
    const [long, longest] = ["x".repeat(50_000), "y".repeat(100_000)];
    const rollout = start().items(
      message("user", long),
      message("assistant", "LONG"),
      message("user", longest),
    );
    const { session } = await read(rollout.add("compacted", { message: "The summary" }));
    expect(said(session.context.messages).slice(1)).toEqual([`user: ${longest}`]);
  });

  test("a roll-back of more turns than exist goes to the first one, and is reported", async () => {
    const { session, report } = await read(start().event("thread_rolled_back", { num_turns: 9 }));
    expect(said(session.context.messages)).toEqual([]);
    expect(report.issues).toMatchObject([{ kind: "rollback" }]);
    const none = new Rollout().meta().items(message("assistant", "YES"));
    const same = await read(none.event("thread_rolled_back", { num_turns: 1 }));
    expect(said(same.session.context.messages)).toEqual(["assistant: YES"]);
  });
});

describe("threads in several files", () => {
  const base = () =>
    new Rollout({ ordinal: 0 }).meta().turn().items(prompt("one"), message("assistant", "ONE")).record();
  const rest = (rollout: Rollout) => rollout.items(prompt("two"), message("assistant", "TWO")).record();

  /** The files of a thread: its first one, and what they go on to. */
  function family() {
    const folder = scratchFolder();
    const first = base();
    const cut = first.base();
    writeRollout(rest(first).lines, folder);
    const fork = new Rollout({ ordinal: 5, hour: 21 })
      .meta({ id: OTHER, forked_from_id: THREAD, history_base: cut })
      .items(prompt("fork"), message("assistant", "FORK"))
      .record();
    const atFork = fork.base(OTHER);
    const grandchild = "01a1ffe6-9999-7a53-9388-92834c789141";
    writeLines(join(folder, rolloutName(OTHER)), fork.items(prompt("later")).lines);
    const child = new Rollout({ ordinal: 9, hour: 22 })
      .meta({ id: grandchild, forked_from_id: OTHER, history_base: atFork })
      .items(prompt("child"));
    writeLines(join(folder, rolloutName(grandchild)), child.lines);
    const revert = new Rollout({ ordinal: 5, hour: 23 })
      .meta({ history_base: cut })
      .items(prompt("revert"), message("assistant", "REVERT"))
      .record();
    writeLines(join(folder, rolloutName(THREAD, SEGMENT)), revert.lines);
    return { folder, grandchild };
  }

  test("a fork begins with its source, up to the byte, with the same ids", async () => {
    const { folder } = family();
    const store = scratchStore();
    const reports = await importAll(folder, store);
    const first = await opened(store, reports[0]!);
    const fork = await opened(store, reports.find(({ sessionId }) => sessionId === OTHER)!);
    expect(said(fork.session.context.messages)).toEqual([
      "user: one",
      "assistant: ONE",
      "user: fork",
      "assistant: FORK",
      "user: later",
    ]);
    const shared = fork.entries.filter(({ id }) => first.session.tree.has(id));
    expect(typesOf(shared)).toEqual([
      "codex.session_meta",
      "model_change",
      "codex.turn_context",
      "user",
      "assistant",
    ]);
    expect(fork.session.header?.parent).toEqual({
      sessionId: THREAD,
      entryId: shared.at(-1)!.id,
      kind: "fork",
    });
    expect(reports.flatMap(({ issues }) => issues)).toEqual([]);
  });

  test("a fork of a fork begins with both", async () => {
    const { folder, grandchild } = family();
    const { session } = await imported(join(folder, rolloutName(grandchild)));
    expect(said(session.context.messages)).toEqual([
      "user: one",
      "assistant: ONE",
      "user: fork",
      "assistant: FORK",
      "user: child",
    ]);
    expect(session.header?.parent?.sessionId).toBe(OTHER);
  });

  test("a segment that rolls back is a branch of its thread, and the leaf is in the newest segment", async () => {
    const { folder } = family();
    const store = scratchStore();
    const reports = await importAll(folder, store);
    const own = reports.filter(({ sessionId }) => sessionId === THREAD);
    expect(own.map(({ status, branches }) => [status, branches])).toEqual([
      ["created", 1],
      ["updated", 2],
    ]);
    const { session } = await opened(store, own[1]!);
    expect(said(session.context.messages)).toEqual([
      "user: one",
      "assistant: ONE",
      "user: revert",
      "assistant: REVERT",
    ]);
    expect(new Set([...session.tree.ids()]).size).toBe(session.tree.length);
    expect((await importAll(folder, store)).map(({ added }) => added)).toEqual([0, 0, 0, 0]);
  });

  test("the order of importing files does not change the result", async () => {
    const { folder } = family();
    const paths = [join(folder, rolloutName()), join(folder, rolloutName(THREAD, SEGMENT))];
    const contexts: string[][] = [];
    const ids: string[][] = [];
    for (const order of [paths, [...paths].reverse()]) {
      const store = scratchStore();
      let last = (await importAll(order[0]!, store))[0]!;
      last = (await importAll(order[1]!, store))[0]!;
      const { session, entries } = await opened(store, last);
      contexts.push(said(session.context.messages));
      ids.push(
        entries
          .filter(({ type }) => type !== "leaf")
          .map(({ id }) => id)
          .sort(),
      );
    }
    expect(contexts[0]).toEqual(contexts[1]);
    expect(ids[0]).toEqual(ids[1]);
  });

  test("a missing file is reported, and the rest is imported", async () => {
    const { folder } = family();
    const alone = scratchFolder();
    writeFileSync(join(alone, rolloutName(OTHER)), readFileSync(join(folder, rolloutName(OTHER))));
    const { session, report } = await imported(join(alone, rolloutName(OTHER)));
    expect(said(session.context.messages)).toEqual(["user: fork", "assistant: FORK", "user: later"]);
    expect(report.issues).toMatchObject([{ kind: "missing-base", line: null }]);
  });

  test("if the bytes of a base have moved, the positions of its lines are used, and this is reported", async () => {
    const { folder } = family();
    const path = join(folder, rolloutName());
    const longer = `/home/me/a/${"longer/".repeat(200)}path`;
    writeFileSync(path, readFileSync(path, "utf8").replaceAll("/home/me/project", longer));
    const { session, report } = await imported(join(folder, rolloutName(OTHER)));
    expect(said(session.context.messages).slice(0, 3)).toEqual(["user: one", "assistant: ONE", "user: fork"]);
    expect(report.issues).toMatchObject([{ kind: "base-mismatch" }]);
  });

  test("files that continue each other in a circle end", async () => {
    const folder = scratchFolder();
    const from = (id: string) => ({
      history_base: { thread_id: id, end_ordinal_exclusive: 9, end_byte_offset: 1_000_000 },
    });
    writeRollout(new Rollout({ ordinal: 0 }).meta(from(OTHER)).items(prompt("a")).lines, folder);
    writeLines(
      join(folder, rolloutName(OTHER)),
      new Rollout({ ordinal: 0 }).meta({ id: OTHER, ...from(THREAD) }).items(prompt("b")).lines,
    );
    const reports = await importAll(folder, scratchStore());
    expect(reports.map(({ status }) => status)).toEqual(["created", "created"]);
    expect(reports[0]!.issues.map(({ kind }) => kind)).toContain("missing-base");
  });

  test("copies in an old fork become their originals: same ids, same times, tokens counted once", async () => {
    const folder = scratchFolder();
    const original = new Rollout()
      .meta()
      .turn()
      .items(message("user", "one"), call("c1"), output("c1"), message("assistant", "ONE"))
      .count(112);
    writeRollout(original.lines, folder);
    const fork = new Rollout({ hour: 22 }).meta({ id: OTHER, forked_from_id: THREAD });
    for (const { type, payload } of original.lines) fork.add(String(type), payload as Line);
    fork.items(message("user", "two"), message("assistant", "TWO")).count(224);
    writeLines(join(folder, rolloutName(OTHER)), fork.lines);
    const store = scratchStore();
    const reports = await importAll(folder, store);
    const [first, second] = await Promise.all(reports.map((report) => opened(store, report)));
    const copied = second!.entries.slice(0, first!.entries.length);
    expect(copied).toEqual(first!.entries);
    expect(second!.session.header?.parent).toEqual({
      sessionId: THREAD,
      entryId: first!.session.leafId,
      kind: "fork",
    });
    expect(said(second!.session.context.messages).slice(-2)).toEqual(["user: two", "assistant: TWO"]);
    const bills = new Set(
      [...first!.entries, ...second!.entries].flatMap((entry) =>
        (entry as AnyEntry).message?.usage ? [entry.id] : [],
      ),
    );
    expect(bills.size).toBe(2);

    const alone = scratchFolder();
    const orphan = await imported(writeLines(join(alone, rolloutName(OTHER)), fork.lines));
    expect(orphan.report.issues.map(({ kind }) => kind)).toContain("missing-base");
    expect(said(orphan.session.context.messages)).toEqual(said(second!.session.context.messages));
  });

  test("lines that an original got after its fork are not in the fork", async () => {
    const folder = scratchFolder();
    const original = new Rollout()
      .meta()
      .items(message("user", "one"), message("assistant", "ONE"))
      .count(112);
    const fork = new Rollout({ hour: 22 }).meta({ id: OTHER, forked_from_id: THREAD });
    for (const { type, payload } of original.lines) fork.add(String(type), payload as Line);
    fork.items(message("user", "two"), call("c2"), output("c2"), message("assistant", "TWO")).count(224);
    writeLines(join(folder, rolloutName(OTHER)), fork.lines);
    original
      .items(message("user", "other"), call("c1"), output("c1"), message("assistant", "OTHER"))
      .count(336);
    writeRollout(original.lines, folder);
    const store = scratchStore();
    const [first, second] = await Promise.all(
      (await importAll(folder, store)).map((report) => opened(store, report)),
    );
    const shared = second!.entries.filter(({ id }) => first!.session.tree.has(id));
    expect(typesOf(shared)).toEqual(["codex.session_meta", "user", "assistant"]);
    expect(second!.session.header?.parent).toMatchObject({ entryId: shared.at(-1)!.id });
  });

  test("a bad line of the original of an old fork is reported as a line of that file", async () => {
    const folder = scratchFolder();
    const { lines } = new Rollout().meta().items(message("user", "one"), message("assistant", "ONE"));
    writeRollout([lines[0], "{", ...lines.slice(1)], folder);
    const fork = new Rollout({ hour: 22 }).meta({ id: OTHER, forked_from_id: THREAD });
    for (const { type, payload } of lines) fork.add(String(type), payload as Line);
    writeLines(join(folder, rolloutName(OTHER)), fork.items(message("user", "two")).lines);
    const [first, second] = await importAll(folder, scratchStore());
    expect(first!.issues).toMatchObject([{ kind: "bad-line", line: 2 }]);
    expect(second!.issues).toMatchObject([{ kind: "bad-line", line: null }]);
    expect(second!.issues[0]!.message).toContain(THREAD);
  });

  test("the thread of a sub-agent is linked to its parent thread", async () => {
    const rollout = new Rollout({ ordinal: 0 })
      .meta({ id: OTHER, session_id: THREAD, source: { subagent: "review" } })
      .items(prompt("hi"));
    const { session } = await imported(writeLines(join(scratchFolder(), rolloutName(OTHER)), rollout.lines));
    expect(session.header?.parent).toEqual({ sessionId: THREAD, entryId: null, kind: "subagent" });
  });

  test("a compressed file is read, and a truncated one affects no other file", async () => {
    const folder = scratchFolder();
    const path = join(folder, `${rolloutName()}.zst`);
    writeFileSync(path, Buffer.from(COMPRESSED, "base64"));
    const { session, report } = await imported(path);
    expect(report).toMatchObject({ status: "created", sessionId: THREAD });
    expect(said(session.context.messages)).toEqual([
      "user: Which way is up?",
      "assistant: That one.",
      "user: And down?",
    ]);
    writeFileSync(path, Buffer.from(COMPRESSED, "base64").subarray(0, 200));
    writeLines(join(folder, rolloutName(OTHER)), new Rollout().meta({ id: OTHER }).items(prompt("hi")).lines);
    const [cut, other] = await importAll(folder, scratchStore());
    expect(cut).toMatchObject({ status: "skipped", issues: [{ kind: "unreadable" }] });
    expect(other).toMatchObject({ status: "created", sessionId: OTHER });
  });
});

/** A rollout of three messages, compressed by the reference implementation. */
const COMPRESSED =
  "KLUv/WCVAXUIAHbQNSNAiTgHuxjYF61EjN7agHwTrcrlllnpiNZCv5dox5pZFa85EygALwApAI9UPiI6r1x74RPlY16++85IX7kAY2xxjDEaW40" +
  "th2HM3SfU5oWvnxCPhtZATtOw0LBQSgYIdOUHxtEgDgp1nNXVOAnFYhBNYjkKgsRy1uFo2tjdo/cEFzO+AfeO21FCVz4tU3ffh5yufAuUeSHc" +
  "fs9ylJN3aoWqOlsQTFumPXhehapqVF9EiIySKAI0y0aZtEqMpmRHbX7MyjSqLyaV8EsiCkkk6EkBdwjbT1MBEwBDLRMO0p2y58DMGy+j3EG6q" +
  "QxhlQCTCUdOyzctA1hGfujYyrCj4GCGLXjuXlAtg4LLAw==";

const corpus = fileURLToPath(new URL("../../../../shared/corpus/codex", import.meta.url));

describe.skipIf(!existsSync(corpus))("real rollouts of Codex (skipped without the corpus)", () => {
  const files = existsSync(corpus)
    ? readdirSync(corpus, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"))
    : [];

  test.each(files)("%s: the context follows the format", async (name) => {
    const { session, entries } = await imported(join(corpus, name));
    expect(said(session.context.messages)).toEqual(rebuildThread(historyOf(name)));
    expect(requestProblems(session.context)).toEqual([]);
    expect(entries.every(({ id, parentId }) => id !== parentId)).toBe(true);
  });

  test.each(files)("%s: removing any line removes its entry or its report", async (name) => {
    const lines = readFileSync(join(corpus, name), "utf8").trim().split("\n");
    const path = join(scratchFolder(), basename(name));
    const fromLines = async (some: readonly string[]) => outcomeOf(await imported(writeLines(path, some)));
    const whole = await fromLines(lines);
    const first = lines.findIndex((line) => line.includes('"type":"session_meta"')) + 1;
    for (let at = first; at < lines.length; at++)
      expect(await fromLines(lines.toSpliced(at, 1)), `line ${at + 1}`).not.toEqual(whole);
  });

  /** What became of a file: what entries say, wherever they stand, and what was told of how many lines. */
  function outcomeOf({ entries, report }: Pick<Imported, "entries" | "report">): string[] {
    const said = (entries as AnyEntry[]).map(
      ({ id: _id, parentId: _parent, targetId: _target, firstKeptEntryId: _kept, ...rest }) =>
        JSON.stringify(rest),
    );
    return [...said, ...report.issues.map(({ kind, message: told, count }) => `${kind} ${told} ${count}`)];
  }

  /** A rollout with what it continues, by the bytes that it names. */
  function historyOf(name: string): Line[] {
    const bytes = readFileSync(join(corpus, name));
    return [...baseOf(name, parse(bytes)[0]!), ...parse(bytes)];
  }

  function baseOf(name: string, header: Line): Line[] {
    const base = (header["payload"] as { history_base?: { thread_id: string; end_byte_offset: number } })
      .history_base;
    if (!base) return [];
    const file = files.find(
      (other) => other !== name && new RegExp(`${base.thread_id}\\.jsonl$`).test(other),
    )!;
    const bytes = readFileSync(join(corpus, file)).subarray(0, base.end_byte_offset);
    return [...baseOf(file, parse(bytes)[0]!), ...parse(bytes)];
  }

  const parse = (bytes: Uint8Array): Line[] =>
    Buffer.from(bytes)
      .toString()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
});
