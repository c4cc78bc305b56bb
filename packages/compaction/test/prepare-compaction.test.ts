import { joinSummary, prepareCompaction } from "@espalier/compaction";
import { EspalierError } from "@espalier/jsonl-stream";
import { type ContextMessage, messageText } from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import { PathBuilder, planned, words } from "./build-path.ts";

const contents = (messages: readonly ContextMessage[]) => messages.map(messageText);

describe("summarized and kept messages", () => {
  test("a cut between turns leaves history and a kept tail", () => {
    const path = new PathBuilder();
    path.user("one");
    path.answer("two");
    const kept = path.user("three");
    path.answer("four");
    const plan = planned(path, { keepRecentTokens: 3 });
    expect(plan).toMatchObject({
      leafId: "e4",
      firstKeptEntryId: kept,
      turnStartEntryId: null,
      isSplitTurn: false,
      historyIds: ["e1", "e2"],
      turnPrefixIds: [],
      keptIds: ["e3", "e4"],
    });
    expect(contents(plan.messagesToSummarize)).toEqual(["one", "two"]);
    expect(contents(plan.keptMessages)).toEqual(["three", "four"]);
    expect(plan.previousSummary).toBeUndefined();
  });

  test("a cut inside a turn separates the history from the beginning of the turn", () => {
    const path = new PathBuilder();
    path.user("old");
    path.answer("old answer");
    path.user("new");
    path.tool("read", { path: "a" }, "result");
    path.answer("working");
    path.answer("done");
    const plan = planned(path, { keepRecentTokens: 1 });
    expect(plan).toMatchObject({
      isSplitTurn: true,
      turnStartEntryId: "e3",
      firstKeptEntryId: "e7",
      historyIds: ["e1", "e2"],
      turnPrefixIds: ["e3", "e4", "e5", "e6"],
      keptIds: ["e7"],
    });
  });

  test("the previously kept tail is part of the next span, and the old summary is updated", () => {
    const path = new PathBuilder();
    path.user("first");
    path.answer("second");
    const tail = path.user("tail");
    path.answer("tail answer");
    path.compaction(tail, "What was before.\n\n<goal>\nfirst\n</goal>");
    path.user("after");
    path.answer("after answer");
    const plan = planned(path, { keepRecentTokens: 4 });
    expect(plan.historyIds).toEqual(["e3", "e4"]);
    expect(plan.keptIds).toEqual(["e6", "e7"]);
    expect(plan.previousSummary).toBe("What was before.");
    expect(plan.blocks.goal).toBe("first");
  });

  test("failed answers and calls without results are included, and edits are applied", () => {
    const path = new PathBuilder();
    const secret = path.user("the password is 123");
    path.answer("oops", { stopReason: "error", errorMessage: "overloaded" });
    path.call([{ name: "read", arguments: { path: "a" } }]);
    path.add({ type: "context_edit", targetId: secret, replacement: { content: "(left out)" } });
    path.user(words(10));
    const plan = planned(path, { keepRecentTokens: 10 });
    expect(contents(plan.messagesToSummarize)).toEqual(["(left out)", "oops", ""]);
    expect(JSON.stringify(plan)).not.toContain("123");
  });

  test("nothing to compact is a result: for an empty path, a short one, or only labels", () => {
    expect(prepareCompaction([])).toEqual({
      eligible: false,
      reason: "Nothing to compact: there are no messages yet.",
    });
    const path = new PathBuilder();
    path.add({ type: "label", targetId: "e1", label: "x" });
    expect(prepareCompaction(path.entries).eligible).toBe(false);
    path.user("short");
    expect(prepareCompaction(path.entries)).toMatchObject({
      eligible: false,
      reason: "Nothing to compact: the messages have 2 tokens, and the newest 20,000 stay as they are.",
    });
  });

  test("with nothing to compact after a summary, the reason counts the messages after it, and says so", () => {
    const path = new PathBuilder();
    const old = path.user(words(50));
    path.compaction(old, words(500));
    path.user("short");
    expect(prepareCompaction(path.entries)).toMatchObject({
      reason: expect.stringMatching(/^Nothing to compact: the messages after the summary have \d+ tokens, /),
    });
  });

  test("system prompts and shell runs excluded from the context are not summarized", () => {
    const path = new PathBuilder();
    path.say({ role: "system", content: words(50) });
    path.say({
      role: "bashExecution",
      command: "ls",
      output: words(50),
      exitCode: 0,
      excludeFromContext: true,
    });
    path.user("hello");
    expect(prepareCompaction(path.entries, { keepRecentTokens: 1 }).eligible).toBe(false);
  });
});

describe("blocks after the prose", () => {
  test("the goal is the user's first message; the latest message is a block only if it is not kept", () => {
    const path = new PathBuilder();
    path.user("build a <shed>");
    path.answer("ok");
    path.user("paint it green");
    path.answer(words(30));
    path.answer(words(30));
    expect(planned(path, { keepRecentTokens: 30 }).blocks).toMatchObject({
      goal: "build a <shed>",
      latestUserMessage: "paint it green",
    });
    expect(planned(path, { keepRecentTokens: 64 }).blocks).not.toHaveProperty("latestUserMessage");
  });

  test("a single prompt appears once, also after the next compaction, and when it was cut", () => {
    const path = new PathBuilder();
    path.user(`Plant beans. ${words(5_000)} Then water them.`);
    path.answer(words(100));
    path.answer(words(100));
    const { blocks } = planned(path, { keepRecentTokens: 10 });
    expect(blocks.goal).toMatch(/^Plant beans\./);
    expect(blocks).not.toHaveProperty("latestUserMessage");
    const kept = path.answer(words(100));
    path.compaction(kept, joinSummary("Prose.", blocks, 200_000));
    path.answer(words(100));
    const again = planned(path, { keepRecentTokens: 10 }).blocks;
    expect(again.goal).toMatch(/^Plant beans\..*left out.*Then water them\.$/s);
    expect(again).not.toHaveProperty("latestUserMessage");
  });

  test("a goal that the user hid is not restored", () => {
    const path = new PathBuilder();
    const first = path.user("my token is abc");
    const second = path.user("fix the tests");
    path.answer(words(50));
    path.add({ type: "context_edit", targetId: first, replacement: null });
    path.user(words(10));
    expect(planned(path, { keepRecentTokens: 10 }).blocks.goal).toBe("fix the tests");
    path.add({ type: "context_edit", targetId: second, replacement: { content: "fix all tests" } });
    expect(planned(path, { keepRecentTokens: 10 }).blocks.goal).toBe("fix all tests");
  });

  test("goal and newest instruction survive a long loop without a user message, and a foreign summary", () => {
    for (const summary of [
      "Prose.\n\n<goal>\nthe goal\n</goal>\n\n<latest-user-message>\nand quickly\n</latest-user-message>",
      "A summary of somebody else.",
    ]) {
      const path = new PathBuilder();
      path.user("the goal");
      path.user("and quickly");
      const kept = path.answer(words(20));
      path.compaction(kept, summary);
      path.tool("read", { path: "a" }, words(40));
      path.answer(words(20));
      expect(planned(path, { keepRecentTokens: 20 }).blocks).toMatchObject({
        goal: "the goal",
        latestUserMessage: "and quickly",
      });
    }
  });

  test("pinned entries that are kept are not repeated", () => {
    const path = new PathBuilder();
    const pinned = [
      { id: path.user("always run the linter"), text: "always run the linter" },
      { id: path.user(words(10)), text: words(10) },
    ];
    expect(planned(path, { keepRecentTokens: 10 }, { pinned }).blocks.pinned).toEqual([pinned[0]]);
  });

  test("file lists come from calls, earlier summaries, branch summaries and records of extensions", () => {
    const path = new PathBuilder();
    path.user("go");
    const kept = path.user("kept");
    path.compaction(kept, "Foreign.\n\n<modified-files>\nold.ts\n</modified-files>", {
      details: { readFiles: ["recorded.ts"], modifiedFiles: 7 },
      fromHook: true,
    });
    path.tool("read", { path: "read.ts" }, "text");
    path.tool("edit", { path: "failed.ts" }, "no such file", true);
    path.tool("Write", { file_path: "written.ts" }, "ok");
    path.tool("my_tool", { target: "mine.ts" }, "ok");
    path.add({
      type: "branch_summary",
      fromId: "e1",
      summary: "Tried.",
      details: { modifiedFiles: ["branch.ts"], readFiles: ["written.ts"] },
    });
    path.user(words(10));
    const mine = {
      name: "my_tool",
      files: ({ target }: { target?: unknown }) => ({ edited: [String(target)] }),
    };
    expect(planned(path, { keepRecentTokens: 10 }).blocks.files).toEqual({
      readFiles: ["read.ts", "recorded.ts"],
      modifiedFiles: ["branch.ts", "old.ts", "written.ts"],
    });
    expect(planned(path, { keepRecentTokens: 10 }, { tools: [mine] }).blocks.files.modifiedFiles).toContain(
      "mine.ts",
    );
  });
});

describe("a plan from the end of a path", () => {
  test("from the first kept entry on equals the plan of the whole path", () => {
    const path = new PathBuilder();
    path.user("the goal");
    path.tool("read", { path: "a.ts" }, words(40));
    const kept = path.user("go on");
    path.answer(words(40));
    path.compaction(kept, "Prose.\n\n<goal>\nthe goal\n</goal>\n\n<read-files>\na.ts\n</read-files>");
    path.tool("edit", { path: "b.ts" }, words(40));
    path.user("and on");
    path.answer(words(40));
    const window = path.entries.slice(path.entries.findIndex(({ id }) => id === kept));
    for (const keepRecentTokens of [0, 20, 40, 60, 90, 120]) {
      expect(prepareCompaction(window, { keepRecentTokens })).toEqual(
        prepareCompaction(path.entries, { keepRecentTokens }),
      );
    }
  });
});

describe("a system prompt in the session", () => {
  test("is kept by the compaction, and counts", () => {
    const path = new PathBuilder();
    path.say({ role: "system", content: "You are a gardener.", sections: { tone: "calm" }, toolsAdded: [] });
    path.user("plant");
    path.answer(words(40));
    path.user(words(10));
    const plan = planned(path, { keepRecentTokens: 10, contextWindow: 20_000 });
    expect(plan.tokensAfter).toBeGreaterThan(10 + plan.summaryTokens);
  });
});

test("an error of the plan names the missing parts, as data", () => {
  const path = new PathBuilder();
  path.user(words(300_000));
  const failure = (() => {
    try {
      return prepareCompaction(path.entries, {}, { overheadTokens: 9_000 });
    } catch (error) {
      return error as EspalierError;
    }
  })();
  expect(failure).toBeInstanceOf(EspalierError);
  expect(failure).toMatchObject({
    code: "irreducible",
    breakdown: { systemAndTools: 9_000, newestUserMessage: 300_000, contextWindow: 200_000 },
  });
});
