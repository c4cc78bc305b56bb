import { pressure } from "@espalier/compaction/policies";
import type { Session } from "@espalier/engine";
import { anthropicFormat, buildRequest } from "@espalier/session-tree";
import { failingAnswer, hangingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { HISTORY_SUMMARY, say, stage } from "./policy-stage.ts";

/** Prose of so many tokens, as this policy counts. */
const words = (tokens: number) => "word ".repeat(Math.floor(tokens / 0.75)).trim();

async function talk(session: Session, tokens: number, each = 100): Promise<void> {
  for (let at = 0; at < tokens / each; at++)
    await session.appendMessages([{ role: at % 2 ? "assistant" : "user", content: words(each) }]);
}

const errorsTo = (errors: string[]) => ({
  warn: () => {},
  error: (message: string) => void errors.push(message),
});

describe("before a request", () => {
  test("below 75 % nothing is pruned, requested or written", async () => {
    const summarizer = scriptedSummarizer(HISTORY_SUMMARY);
    const session = await stage({ policy: "pressure", summarizer });
    await talk(session, 5_900);
    const { compaction } = await session.prepareRequest();
    expect([compaction, summarizer.requests]).toEqual([null, []]);
    expect(session.context.messages).toHaveLength(59);
    await session.close();
  });

  test.each([
    ["WARNING", 6_800, 5_600, "Context at 86% - compacting"],
    ["CRITICAL", 7_600, 4_800, "Context at 96% - compacting"],
  ])("%s prunes to its target, and reports it", async (_, tokens, target, message) => {
    const told: unknown[] = [];
    const session = await stage({ policy: "pressure", summarizer: scriptedSummarizer(HISTORY_SUMMARY) });
    session.events.subscribe("PROGRESS_UPDATE", (payload) => void told.push(payload));
    session.events.subscribe("STATE_CHANGED", (payload) => void told.push(payload));
    await talk(session, tokens);
    const { compaction } = await session.prepareRequest();
    const { tokensBefore, tokensAfter, messagesRemoved } = compaction!;
    expect(tokensBefore).toBe(tokens);
    expect(tokensAfter).toBeLessThanOrEqual(target - 50);
    expect(messagesRemoved).toBeGreaterThan(5);
    expect(told).toEqual([
      { message },
      { name: "session.compaction", data: { tokensBefore, tokensAfter, messagesRemoved } },
    ]);
    await session.close();
  });

  test("system prompt and tools count", async () => {
    const session = await stage({ policy: "pressure", summarizer: scriptedSummarizer(HISTORY_SUMMARY) });
    await talk(session, 5_000);
    expect((await session.prepareRequest({ system: words(900) })).compaction).toBeNull();
    const tools = [{ name: "read", description: words(500) }];
    const { compaction, system } = await session.prepareRequest({ system: words(900), tools });
    expect(compaction).not.toBeNull();
    expect(system).toBe(words(900));
    await session.close();
  });

  test("pairs stay whole, and the request is valid even if the kept messages have gaps", async () => {
    const session = await stage({ policy: "pressure", summarizer: scriptedSummarizer(HISTORY_SUMMARY) });
    await session.appendMessages([{ role: "user", content: "begin" }]);
    for (let at = 0; at < 9; at++) {
      await session.appendMessages([
        { role: "assistant", content: [{ type: "toolCall", id: `c${at}`, name: "read", arguments: {} }] },
        { role: "toolResult", toolCallId: `c${at}`, content: words(700) },
      ]);
    }
    await session.appendMessages([{ role: "assistant", content: "done" }]);
    const { context, compaction } = await session.prepareRequest();
    expect(compaction!.editIds.length).toBeGreaterThan(5);
    const request = buildRequest(context, { format: anthropicFormat });
    const called = JSON.stringify(request).match(/"id":"c\d"/g);
    const answered = JSON.stringify(request).match(/"tool_use_id":"c\d"/g);
    expect([called?.length, answered?.length]).toEqual([5, 5]);
    expect(JSON.stringify(request)).not.toContain("No result was recorded");
    await session.close();
  });

  test("a required tool result that does not fit is shortened", async () => {
    const session = await stage({ policy: "pressure" });
    await talk(session, 500);
    await session.appendMessages([
      { role: "user", content: "read it" },
      { role: "assistant", content: [{ type: "toolCall", id: "c", name: "read", arguments: {} }] },
      { role: "toolResult", toolCallId: "c", content: words(20_000) },
    ]);
    const { context, failure } = await session.prepareRequest();
    expect(failure).toBeNull();
    expect(JSON.stringify(context.messages.at(-1))).toContain("characters left out");
    const tokens = context.messages.reduce((sum, message) => sum + pressure().estimate(message), 0);
    expect(tokens).toBeLessThan(6_000);
    await session.close();
  });
});

describe("a failed compaction", () => {
  test("is logged and published, and the agent continues with the unchanged history", async () => {
    const errors: string[] = [];
    const told: string[] = [];
    const session = await stage({
      policy: "pressure",
      summarizer: scriptedSummarizer(() => failingAnswer("unauthorized")),
      fallback: false,
      log: errorsTo(errors),
    });
    session.events.subscribe("ERROR", ({ message }) => void told.push(message));
    await talk(session, 7_000);
    const before = structuredClone(session.context);
    const { failure, compaction, context } = await session.prepareRequest();
    expect(failure).toMatchObject({ code: "unauthorized" });
    expect(compaction).toBeNull();
    expect(context).toEqual(before);
    expect(told).toEqual(errors);
    expect(errors).toEqual([expect.stringMatching(/not compacted, and is unchanged/)]);
    await session.close();
  });

  test("is thrown if the history does not fit the model's window either", async () => {
    const session = await stage({
      policy: "pressure",
      summarizer: scriptedSummarizer(() => failingAnswer("unauthorized")),
      fallback: false,
      compaction: { contextWindow: 6_000, reserveTokens: 1_000 },
    });
    await talk(session, 9_000);
    await expect(session.prepareRequest()).rejects.toMatchObject({ code: "unauthorized" });
    await session.close();
  });

  test("throws an abort, and nothing is written", async () => {
    const session = await stage({ policy: "pressure", summarizer: scriptedSummarizer(hangingAnswer()) });
    await talk(session, 7_000);
    const entries = session.getEntries().length;
    const stop = new AbortController();
    const preparing = session.prepareRequest({ signal: stop.signal });
    setTimeout(() => stop.abort(), 10);
    await expect(preparing).rejects.toMatchObject({ code: "aborted" });
    expect(session.getEntries()).toHaveLength(entries);
    await session.close();
  });
});

describe("every policy", () => {
  test("compacts nothing automatically with autoCompact off; a context that does not fit is a typed error", async () => {
    const compaction = { autoCompact: false, contextWindow: 8_000, reserveTokens: 1_000 };
    for (const policy of [
      "pressure",
      "token-budget",
      "offload",
      "sliding-window",
      "message-count",
    ] as const) {
      const session = await stage({ policy, compaction });
      await say(session, 12);
      expect(await session.prepareRequest()).toMatchObject({ compaction: null, offloaded: null });
      await say(session, 8, 12);
      await expect(session.prepareRequest()).rejects.toMatchObject({ code: "auto-off" });
      expect(
        await session.compact({ settings: { keepRecentTokens: 1_000 }, policy: "token-budget" }),
      ).toMatchObject({
        eligible: true,
      });
      await session.close();
    }
  });

  test("compacts a context beyond the window, even if it finds none due", async () => {
    const compaction = { contextWindow: 12_000, reserveTokens: 2_000, keepRecentTokens: 4_000 };
    for (const policy of ["sliding-window", "message-count"] as const) {
      const session = await stage({ policy, compaction });
      await say(session, 30);
      const { compaction: done, failure, context } = await session.prepareRequest();
      expect([policy, failure, done?.eligible]).toEqual([policy, null, true]);
      expect(context.tokens).toBeLessThan(10_000);
      await session.close();
    }
  });

  test("throws a typed error with the size of each part if nothing can be reduced", async () => {
    const session = await stage({ compaction: { contextWindow: 2_000, reserveTokens: 500 } });
    await session.appendMessages([{ role: "user", content: "x".repeat(20_000) }]);
    await expect(session.prepareRequest({ overheadTokens: 100 })).rejects.toMatchObject({
      code: expect.stringMatching(/irreducible|over-window/),
      breakdown: expect.objectContaining({ contextWindow: 2_000 }),
    });
    await session.close();
  });

  test("publishes progress and results", async () => {
    for (const policy of [
      "token-budget",
      "sliding-window",
      "message-count",
      "offload",
      "pressure",
    ] as const) {
      const told: string[] = [];
      const policySettings = { tailKeepSize: 5, contextSize: 9, maxContextTokens: 4_000 };
      const session = await stage({ policySettings });
      session.events.subscribe("PROGRESS_UPDATE", ({ message }) => void told.push(message));
      session.events.subscribe("STATE_CHANGED", ({ name }) => void told.push(name));
      await say(session, 20);
      await session.compact({ policy, settings: { keepRecentTokens: 2_000 } });
      expect([policy, ...told]).toEqual([
        policy,
        expect.stringMatching(/^Context at \d+% - compacting$/),
        "session.compaction",
      ]);
      await session.close();
    }
  });

  test("refuses an unknown name or contradictory settings when the session is opened", async () => {
    await expect(stage({ policy: "nothing" as never })).rejects.toThrow(/no policy "nothing".*token-budget/);
    const policySettings = { tailKeepSize: 80 };
    await expect(stage({ policy: "sliding-window", policySettings })).rejects.toMatchObject({
      keys: ["tailKeepSize", "contextSize"],
    });
  });

  test("can be compared with the others on one session, without requests or writes", async () => {
    const session = await stage({ policySettings: { tailKeepSize: 5, contextSize: 9 } });
    await say(session, 20);
    const entries = session.getEntries().length;
    const table = session.comparePolicies();
    expect(table.map(({ policy }) => policy)).toEqual([
      "token-budget",
      "sliding-window",
      "message-count",
      "offload",
      "pressure",
    ]);
    for (const row of table) {
      expect(row.messagesBefore).toBe(20);
      expect(row.eligible).toBe(row.reason === null);
      expect(row.tokensAfter).toBeLessThanOrEqual(row.tokensBefore);
      expect(row.calls).toBe(row.eligible ? 1 : 0);
      expect(row.messagesAfter).toBe(row.eligible ? 20 - row.summarised + 1 : 20);
    }
    expect(table.find(({ policy }) => policy === "sliding-window")).toMatchObject({ summarised: 15 });
    expect(session.getEntries()).toHaveLength(entries);
    await session.close();
  });
});

test("the comparison has a row with the reason for a session that cannot be compacted at all", async () => {
  const session = await stage({ compaction: { contextWindow: 1_000, reserveTokens: 500 } });
  await session.appendMessages([{ role: "user", content: words(5_000) }]);
  const [row] = session.comparePolicies();
  expect(row).toMatchObject({ policy: "token-budget", eligible: false, cache: null });
  expect(row!.reason).toContain("do not fit into a window of 1000 tokens");
  await session.close();
});
