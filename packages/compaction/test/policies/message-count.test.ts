import { compact } from "@espalier/compaction";
import {
  DEFAULT_MESSAGE_COUNT_SETTINGS,
  formatMessages,
  getHistory,
  getHistoryContext,
  isArchived,
  messageCount,
  type SessionSummary,
  SUMMARY_HEADING,
  sessionSummaries,
  summaryNote,
} from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  compaction,
  contextEdit,
  memoryStore,
  message,
  modelChange,
  SessionTree,
  Tree,
  type UserMessage,
} from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answer, calling, pathOf, planned, result, situationAt, talk, user } from "./conversation.ts";

test("the defaults are those of the document", () => {
  expect(DEFAULT_MESSAGE_COUNT_SETTINGS).toEqual({ maxMessages: 50, keepLast: 10 });
});

test("a setting that is undefined has its default", () => {
  const policy = messageCount({ maxMessages: undefined, keepLast: undefined } as object);
  expect([50, 51].map((count) => policy.judge(situationAt(pathOf(talk(count)))))).toEqual([
    undefined,
    "policy",
  ]);
});

test("maxMessages must be above keepLast, and the error names both", () => {
  expect(() => messageCount({ maxMessages: 10 })).toThrow(EspalierError);
  expect(() => messageCount({ maxMessages: 10, keepLast: 10 })).toThrow(/keepLast.*maxMessages/);
  expect(() => messageCount({ keepLast: 0 })).toThrow(/keepLast/);
});

test.each([
  [50, undefined],
  [51, "policy"],
])("%i active messages are evaluated as %s", (count, due) => {
  expect(messageCount().judge(situationAt(pathOf(talk(count))))).toBe(due);
});

describe("a compaction", () => {
  test("summarizes the oldest, and keeps the last ten", () => {
    const plan = planned(messageCount(), pathOf(talk(51)));
    expect(plan.historyIds).toHaveLength(41);
    expect(plan.firstKeptEntryId).toBe("e41");
  });

  test("keeps more where the limit would separate a call from its results, never fewer", () => {
    const messages = [...talk(4), calling("x", "y"), result("x"), result("y"), answer("done")];
    const plan = planned(messageCount({ keepLast: 2, maxMessages: 3 }), pathOf(messages));
    expect(plan.firstKeptEntryId).toBe("e4");
    expect(plan.keptIds).toHaveLength(4);
  });

  test("gives the summarizer lines `role: content`, as data", () => {
    const plan = planned(
      messageCount({ keepLast: 1, maxMessages: 3 }),
      pathOf([user("what is <b>?"), calling("x"), result("x", "bold"), answer("bold"), user("thanks")]),
    );
    expect(plan.style!.render!(plan.messagesToSummarize)).toBe(
      [
        "<transcript>",
        "user: what is &lt;b>?",
        'assistant: [read {"path":"x.txt"}]',
        "toolResult: bold",
        "assistant: bold",
        "</transcript>",
      ].join("\n"),
    );
  });

  test("does nothing at or below keepLast", () => {
    const plan = messageCount().plan(situationAt(pathOf(talk(10))), {});
    expect(plan).toMatchObject({ eligible: false });
    expect(messageCount().plan(situationAt([]), {})).toMatchObject({
      eligible: false,
      reason: "Nothing to compact: there are no messages yet.",
    });
  });
});

/** A session in which every summary was committed as the engine does it. */
async function archive(summaries: readonly string[], perRange = 12): Promise<SessionTree> {
  const store = memoryStore();
  const header = {
    type: "session" as const,
    version: 3,
    id: "s1",
    timestamp: "2026-01-01T00:00:00.000Z",
    cwd: "/",
  };
  const session = await SessionTree.open(await store.create(header));
  const policy = messageCount({ keepLast: 2, maxMessages: 3 });
  for (const [at, own] of summaries.entries()) {
    await session.append(talk(perRange).map((said) => message.of({ message: said as never })));
    const plan = planned(policy, session.window.entries);
    const { stackedOn, firstKeptEntryId, historyIds } = plan;
    const summary = `${plan.style!.heading}${stackedOn ? `${stackedOn}\n` : ""}${own}\n\n<goal>\nwhy\n</goal>`;
    const covered = {
      firstEntryId: historyIds[0]!,
      lastEntryId: historyIds.at(-1)!,
      messages: historyIds.length,
    };
    const made = {
      entryId: `c${at}`,
      sessionId: "s1",
      summary,
      fromExtension: false,
      covered,
      at: `day ${at}`,
    };
    const details = policy.record!(plan, made, situationAt(session.window.entries));
    const fields = { summary, firstKeptEntryId: firstKeptEntryId!, tokensBefore: 1, details };
    await session.append(compaction.of({ id: `c${at}`, ...fields }));
  }
  return session;
}

describe("stacked summaries", () => {
  test("each covers its own range: first and last message, count, time", async () => {
    const session = await archive(["first days", "second days"]);
    const [first, second] = sessionSummaries(session) as [SessionSummary, SessionSummary];
    const branch = session.getBranch().filter((entry) => message.is(entry));
    expect(first).toEqual({
      id: "c0",
      sessionId: "s1",
      summary: "first days",
      startMsgId: branch[0]!.id,
      endMsgId: branch[9]!.id,
      msgCount: 10,
      createdAt: "day 0",
    });
    expect(second).toMatchObject({ startMsgId: branch[10]!.id, endMsgId: branch[21]!.id, msgCount: 12 });
  });

  test("the newest compaction contains all of them, the earlier ones byte for byte", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.string({ unit: "grapheme", minLength: 1 }).map((text) => text.replaceAll("<", "").trim() || "x"),
          { minLength: 1, maxLength: 4 },
        ),
        async (texts) => {
          const session = await archive(texts);
          expect(sessionSummaries(session).map(({ summary }) => summary)).toEqual(texts);
          const newest = session.context.messages[0] as { summary: string };
          expect(newest.summary.startsWith(`${SUMMARY_HEADING}${texts.join("\n")}\n\n<goal>`)).toBe(true);
        },
      ),
      { numRuns: 50 },
    );
  });

  test("a summary of another program covers everything before it", async () => {
    const session = await archive(["ours"]);
    const kept = session.window.entries.filter((entry) => message.is(entry)).at(-1)!.id;
    const id = await session.appendCompaction("theirs", kept, 10);
    expect(sessionSummaries(session)).toEqual([
      expect.objectContaining({
        id,
        summary: "theirs",
        msgCount: 11,
        startMsgId: session.getBranch()[0]!.id,
      }),
    ]);
    const plan = planned(messageCount({ keepLast: 1, maxMessages: 2 }), [
      ...session.window.entries,
      ...pathOf(talk(3)),
    ]);
    expect(plan.stackedOn).toBe("theirs");
  });

  test("a range is recorded separately, even after a summary that quotes Espalier's tags", async () => {
    const session = await archive([]);
    const said = await session.append(talk(12).map((each) => message.of({ message: each as never })));
    await session.appendCompaction("It said <goal>win</goal>, and\n<pinned>.", said[9]!.id, 10);
    await session.append(talk(4).map((each) => message.of({ message: each as never })));
    const policy = messageCount({ keepLast: 2, maxMessages: 3 });
    const plan = planned(policy, session.window.entries);
    const { summary } = await compact(plan, { summarizer: scriptedSummarizer("What came then.") });
    const covered = { firstEntryId: null, lastEntryId: null, messages: plan.historyIds.length };
    const made = { entryId: "c", sessionId: "s1", summary, fromExtension: false, covered, at: "" };
    expect(policy.record!(plan, made, situationAt(session.window.entries))).toMatchObject({
      sessionSummary: { summary: "What came then." },
    });
  });

  test("a compaction refers to the entry above it, even if another entry has the same id", async () => {
    const [first, second, third, fourth] = pathOf(talk(4));
    const compacted = compaction.of({ id: "c", summary: "So far.", firstKeptEntryId: "e2", tokensBefore: 1 });
    const below = { timestamp: "2026-01-01T00:01:00.000Z", parentId: "e3" };
    const damaged = [
      first!,
      second!,
      third!,
      fourth!,
      // On a branch of its own, and below.
      { ...third!, parentId: "e0" },
      { ...compacted, ...below },
      { ...third!, ...below, parentId: "c" },
    ];
    const header = { type: "session" as const, version: 3, id: "s1", timestamp: "", cwd: "/" };
    const log = await memoryStore().create(
      header,
      damaged.map((entry) => JSON.stringify(entry)),
    );
    const tree = new Tree(await log.load());
    expect(sessionSummaries({ tree, leafId: "c" })).toMatchObject([
      { summary: "So far.", startMsgId: "e0", endMsgId: "e1", msgCount: 2 },
    ]);
  });

  test("differ on another leaf, and do not exist before the first compaction", async () => {
    const session = await archive(["first", "second"]);
    expect(sessionSummaries(session, "c0").map(({ summary }) => summary)).toEqual(["first"]);
    expect(sessionSummaries(session, null)).toEqual([]);
  });

  test("the system prompt says that summaries are for reference, only if there are any", async () => {
    const session = await archive(["first"]);
    expect(summaryNote(session.window.entries)).toMatch(/for reference only.*query_history/);
    expect(summaryNote(session.getBranch().slice(0, 3))).toBeUndefined();
  });
});

describe("archived entries", () => {
  test("are the messages that only a summary represents, on the path of the leaf", async () => {
    const session = await archive(["first"]);
    const ids = session.getBranch().map(({ id }) => id);
    expect(ids.map((id) => isArchived(session, id))).toEqual([
      ...Array.from({ length: 10 }, () => true),
      false,
      false,
      false,
    ]);
    expect(isArchived(session, ids[0]!, ids[3]!)).toBe(false);
    expect(() => isArchived(session, "nobody")).toThrow(/nobody/);
  });

  test("include kept messages that an edit removed, and settings above the kept messages", async () => {
    const session = await archive([]);
    const [change] = await session.append(modelChange.of({ provider: "p", modelId: "m" }));
    const said = await session.append(talk(4).map((said) => message.of({ message: said as UserMessage })));
    const [kept, out] = [said[2]!, said[3]!];
    await session.append(compaction.of({ summary: "all", firstKeptEntryId: kept.id, tokensBefore: 1 }));
    expect(isArchived(session, out.id)).toBe(false);
    await session.append(contextEdit.of({ targetId: out.id, replacement: null }));
    expect([change!, said[1]!, kept, out].map(({ id }) => isArchived(session, id))).toEqual([
      true,
      true,
      false,
      true,
    ]);
  });

  test("do not include entries of another branch", async () => {
    const session = await archive(["first"]);
    const [first] = session.getBranch();
    await session.moveTo(first!.id);
    const [aside] = await session.append(message.of({ message: user("aside") }));
    expect(isArchived(session, aside!.id)).toBe(false);
    expect(isArchived(session, aside!.id, "c0")).toBe(false);
  });
});

describe("history as text", () => {
  test("has the summaries joined by newlines, a blank line, and the newest active messages", async () => {
    const session = await archive(["first days", "second days"]);
    await session.append(message.of({ message: user("and now?") }));
    const lines = getHistoryContext(session, { limit: 2 }).split("\n");
    expect(lines).toEqual([
      "## PREVIOUS CONTEXT SUMMARY",
      "first days",
      "second days",
      "",
      "## RECENT MESSAGES",
      expect.stringMatching(/^assistant: answer 11/),
      "user: and now?",
    ]);
  });

  test("before the first entry is empty, whatever the leaf has", async () => {
    const session = await archive(["first days"]);
    expect(getHistoryContext(session, { leafId: null })).toBe(
      "## PREVIOUS CONTEXT SUMMARY\n\n\n## RECENT MESSAGES\n",
    );
  });

  test("is cut by the limit, and only this text is; the default is ten messages", async () => {
    const session = await archive(["first"], 30);
    expect(getHistory(session)).toHaveLength(2);
    await session.append(talk(14).map((said) => message.of({ message: said as never })));
    expect(getHistory(session)).toHaveLength(10);
    expect(getHistory(session, { limit: 100 })).toHaveLength(16);
    expect(session.context.messages).toHaveLength(17);
  });

  test("a session without summaries has both headings", async () => {
    const store = memoryStore();
    const header = { type: "session" as const, version: 3, id: "s2", timestamp: "", cwd: "/" };
    const session = await SessionTree.open(await store.create(header));
    await session.append(message.of({ message: user("hello") }));
    expect(getHistoryContext(session)).toBe(
      "## PREVIOUS CONTEXT SUMMARY\n\n\n## RECENT MESSAGES\nuser: hello",
    );
  });

  test("leaves out messages that the model must not read", () => {
    const hidden = { role: "bashExecution" as const, command: "env", output: "KEY=1", timestamp: 1 };
    expect(formatMessages([{ ...hidden, excludeFromContext: true }, hidden])).toBe(
      "bashExecution: $ env\nKEY=1",
    );
  });
});
