import { type Policy, tokenBudget } from "@espalier/compaction";
import type { Extension } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { isMessage } from "@espalier/session-tree";
import {
  callingAnswer,
  cutOffAnswer,
  emptyAnswer,
  failingAnswer,
  hangingAnswer,
  refusingAnswer,
  type Script,
  scriptedSummarizer,
} from "@espalier/summarizer/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addedSince,
  billed,
  bytesOf,
  contextOf,
  HISTORY_ANSWER,
  listen,
  plant,
  soundAnswer,
  words,
} from "./build-session.ts";

/** Failure of a summarizer, its error code, and its number of bills (an invalid answer is requested twice). */
const failures: [what: string, script: Script, code: string, bills: number][] = [
  ["throws", { error: new TypeError("no") }, "failed", 0],
  ["is unauthorized", failingAnswer("unauthorized", billed(10)), "unauthorized", 1],
  ["returns an empty answer", emptyAnswer(billed(10)), "empty", 2],
  ["is cut off", cutOffAnswer(HISTORY_ANSWER, billed(10)), "cut-off", 2],
  ["refuses", refusingAnswer(billed(10)), "refused", 2],
  ["calls a tool", callingAnswer(billed(10)), "tool-call", 2],
  ["writes a call as text", { text: '{"name": "read", "input": {}}', usage: billed(10) }, "tool-call", 2],
  [
    "writes more than it replaces",
    { text: `${HISTORY_ANSWER}${words(5_000)}`, usage: billed(10) },
    "no-smaller",
    1,
  ],
];

describe("without a fallback, nothing is changed by a summarizer that", () => {
  for (const [what, script, code, bills] of failures)
    test(what, async () => {
      const { heard, extension } = listen();
      const summarizer = scriptedSummarizer(script);
      const { session, store } = await plant({ extensions: [extension], summarizer, fallback: false });
      const before = {
        bytes: bytesOf(session),
        context: await contextOf(session, store),
        leafId: session.leafId,
      };
      await expect(session.compact()).rejects.toMatchObject({ code });
      expect(await contextOf(session, store)).toEqual(before.context);
      expect(session.leafId).toBe(before.leafId);
      const added = addedSince(session, before.bytes);
      if (bills === 0) expect(added).toEqual([]);
      else expect(added).toMatchObject([{ type: "usage", kind: "compaction", usage: { input: 10 * bills } }]);
      expect(heard).toMatchObject({
        before: 1,
        committed: [],
        failed: [{ outcome: "failed", aborted: false }],
      });
      expect(heard.failed).toMatchObject([{ reason: "manual", willRetry: false, error: { code } }]);
      expect(session.isCompacting).toBe(false);
      expect(await session.compact({ summarizer: scriptedSummarizer(soundAnswer) })).toMatchObject({
        eligible: true,
      });
    });

  for (const how of ["until-aborted", "for-ever"] as const)
    test(`hangs (${how}), once it is aborted`, async () => {
      const { heard, extension } = listen();
      const summarizer = scriptedSummarizer(hangingAnswer(how));
      const { session, store } = await plant({ extensions: [extension], summarizer, fallback: false });
      const before = { bytes: bytesOf(session), context: await contextOf(session, store) };
      const abort = new AbortController();
      const running = session.compact({ signal: abort.signal });
      setTimeout(() => abort.abort(), 20);
      await expect(running).rejects.toMatchObject({ code: "aborted" });
      expect(await contextOf(session, store)).toEqual(before.context);
      expect(addedSince(session, before.bytes)).toEqual([]);
      expect(heard.failed).toMatchObject([{ outcome: "aborted", aborted: true }]);
      expect(heard.committed).toEqual([]);
    });

  test("fails in one part of a split turn after the other part was billed", async () => {
    const summarizer = scriptedSummarizer(async (request) => {
      if (request.purpose === "history") return { text: soundAnswer(request), usage: billed(30) };
      await new Promise((resolve) => setTimeout(resolve, 10));
      return failingAnswer("unauthorized", billed(4));
    });
    const { session } = await plant({ summarizer, fallback: false, compaction: { keepRecentTokens: 20 } });
    expect(session.planCompaction()).toMatchObject({ isSplitTurn: true });
    const before = bytesOf(session);
    await expect(session.compact()).rejects.toMatchObject({ code: "unauthorized" });
    expect(addedSince(session, before)).toMatchObject([
      { type: "usage", usage: { input: 34, cost: { total: 34 } } },
    ]);
  });
});

test("property: after an abort at any moment, a compaction is in the log as a whole or not at all, and the result says which", async () => {
  const property = fc.asyncProperty(
    fc.nat(12),
    fc.nat(4),
    fc.boolean(),
    async (abortAfter, delayMs, slowHook) => {
      const { heard, extension } = listen();
      const summarizer = scriptedSummarizer(async (request) => {
        await new Promise((resolve) => setTimeout(resolve, delayMs));
        return { text: soundAnswer(request), usage: billed(10) };
      });
      const slow = (api: Parameters<typeof extension>[0]) => {
        api.on("session_before_compact", async () => new Promise((resolve) => setTimeout(resolve, delayMs)));
        api.on(
          "entry_before_append",
          async () => new Promise<void>((resolve) => setTimeout(resolve, delayMs)),
        );
      };
      const { session, store } = await plant({
        turns: 3,
        extensions: slowHook ? [extension, slow] : [extension],
        summarizer,
        fallback: false,
      });
      const before = { bytes: bytesOf(session), context: await contextOf(session, store) };
      const abort = new AbortController();
      const running = session.compact({ signal: abort.signal }).then(
        (result) => ({ result }),
        (error: unknown) => ({ error }),
      );
      setTimeout(() => abort.abort(), abortAfter);
      const ended = await running;
      const added = addedSince(session, before.bytes);
      expect(heard.committed.length + heard.failed.length).toBe(1);
      if ("error" in ended) {
        expect(ended.error).toMatchObject({ code: "aborted" });
        expect(heard.failed).toMatchObject([{ outcome: "aborted" }]);
        expect(await contextOf(session, store)).toEqual(before.context);
        expect(added.every(({ type }) => type === "usage")).toBe(true);
        expect(added.length).toBeLessThanOrEqual(1);
      } else {
        expect(ended.result).toMatchObject({ eligible: true, entryId: added[0]!.id });
        expect(heard.committed).toHaveLength(1);
        expect((await contextOf(session, store)).messages[0]).toMatchObject({ role: "compactionSummary" });
      }
      await session.close();
    },
  );
  await fc.assert(property, { numRuns: 60 });
});

describe("with a fallback", () => {
  for (const [what, script] of failures)
    test(`a summarizer that ${what} is replaced by the extractive one, and the entry says so`, async () => {
      const { heard, extension } = listen();
      const summarizer = scriptedSummarizer(script);
      const { session, store } = await plant({
        turns: 20,
        extensions: [extension],
        summarizer,
        fallback: true,
      });
      const result = await session.compact();
      expect(result).toMatchObject({ eligible: true, source: "extractive" });
      const [entry] = session.getBranch().slice(-1);
      expect(entry).toMatchObject({
        type: "compaction",
        details: { source: "extractive", model: { provider: "espalier", modelId: "extractive" } },
      });
      expect((await contextOf(session, store)).messages[0]).toMatchObject({ role: "compactionSummary" });
      expect(heard).toMatchObject({ before: 1, failed: [] });
      expect(heard.committed).toHaveLength(1);
    });

  test("the entry has the bills of failed attempts", async () => {
    const summarizer = scriptedSummarizer(emptyAnswer(billed(10)));
    const { session } = await plant({ turns: 20, summarizer, fallback: true });
    const before = bytesOf(session);
    expect(await session.compact()).toMatchObject({ usage: { input: 20 } });
    expect(addedSince(session, before).map(({ type }) => type)).not.toContain("usage");
  });

  test("an automatic compaction falls back, but not a command with a named summarizer", async () => {
    const summarizer = scriptedSummarizer(failingAnswer("unauthorized"));
    const { session } = await plant({ turns: 20, summarizer });
    await expect(session.compact()).rejects.toMatchObject({ code: "unauthorized" });
    expect(await session.compact({ reason: "threshold" })).toMatchObject({ source: "extractive" });
  });

  test("a history too long for the model is summarized without the model, with or without a fallback", async () => {
    const summarizer = scriptedSummarizer(failingAnswer("too-long"), { contextWindow: 50_000 });
    const { session } = await plant({ turns: 20, summarizer, fallback: false });
    expect(await session.compact()).toMatchObject({ source: "extractive" });
  });

  test("an abort does not start the fallback", async () => {
    const summarizer = scriptedSummarizer(hangingAnswer("for-ever"));
    const { session } = await plant({ turns: 20, summarizer, fallback: true });
    const before = bytesOf(session);
    const running = session.compact({ signal: AbortSignal.timeout(20) });
    await expect(running).rejects.toBeInstanceOf(EspalierError);
    expect(addedSince(session, before)).toEqual([]);
  });
});

test("an already aborted signal ends the compaction, and nothing is reported as begun", async () => {
  const summarizer = scriptedSummarizer(soundAnswer);
  const { heard, extension } = listen();
  const { session } = await plant({ summarizer, extensions: [extension] });
  await expect(session.compact({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
  expect(summarizer.requests).toEqual([]);
  // Also where it fires before anybody was asked.
  const abort = new AbortController();
  const running = session.compact({ signal: abort.signal });
  abort.abort();
  await expect(running).rejects.toMatchObject({ code: "aborted" });
  expect(heard).toEqual({ before: 0, committed: [], failed: [] });
  expect(session.getBranch().every((entry) => isMessage(entry, "user") || entry.type === "message")).toBe(
    true,
  );
});

test.each(["token-budget", "offload", "message-count"] as const)(
  "under %s a summary in another language or with four of six headings is committed at once, and reported",
  async (policy) => {
    const chinese = "## 目标\n修复测试。\n\n## 下一步\n1. 运行全部测试。";
    const four = HISTORY_ANSWER.split(/\n(?=## )/)
      .slice(0, 4)
      .join("\n");
    for (const text of [chinese, four, "The user asks; nothing is done yet."]) {
      const summarizer = scriptedSummarizer({ text, usage: billed(10) });
      const { session, store } = await plant({ policy, summarizer, fallback: false });
      const result = await session.compact();
      expect(result).toMatchObject({ eligible: true, source: "scripted" });
      expect(summarizer.requests).toHaveLength(1);
      const [asked] = summarizer.requests;
      const missing = asked!.sections.filter((name) => !text.includes(`## ${name}`));
      expect((result as { missingSections?: unknown }).missingSections ?? []).toEqual(missing);
      const entry = session.getEntry(session.leafId!) as { details?: { missingSections?: unknown } };
      expect(entry.details?.missingSections ?? []).toEqual(missing);
      await contextOf(session, store);
    }
  },
);

describe("a number that JSON cannot represent", () => {
  test("in the usage of a summarizer counts as nothing, and the compaction is committed", async () => {
    const usage = { ...billed(10), cacheRead: Number.NaN, totalTokens: Number.POSITIVE_INFINITY };
    const summarizer = scriptedSummarizer((request) => ({ text: soundAnswer(request), usage }));
    const { session } = await plant({ summarizer });
    const { usage: recorded } = (await session.compact()) as { usage?: unknown };
    expect(recorded).toMatchObject({ input: 10, output: 1, cacheRead: 0, totalTokens: 11 });
    await session.close();
  });

  test("in the usage of a failed call does not hide the reason of the failure", async () => {
    const error = new EspalierError("unauthorized", "no", { usage: { ...billed(10), output: Number.NaN } });
    const { session, store } = await plant({ summarizer: scriptedSummarizer({ error }), fallback: false });
    const before = bytesOf(session);
    await expect(session.compact()).rejects.toMatchObject({ code: "unauthorized" });
    expect(addedSince(session, before)).toMatchObject([{ type: "usage", usage: { input: 10, output: 0 } }]);
    await contextOf(session, store);
  });

  test("in the details of an extension's compaction makes the engine refuse it and use its own", async () => {
    const extension: Extension = (api) => {
      api.on("session_before_compact", () => ({
        compaction: { summary: "Mine.", details: { score: Number.NaN } },
      }));
    };
    const { session, reports } = await plant({ extensions: [extension] });
    expect(await session.compact()).toMatchObject({ eligible: true, source: "extractive" });
    expect(reports).toMatchObject([
      { kind: "invalid-answer", message: expect.stringContaining("details.score is NaN") },
    ]);
    await session.close();
  });
});

test("an automatic compaction whose entry is refused at the append blocks no request", async () => {
  let ratio = Number.NaN;
  const policy: Policy = { ...tokenBudget, record: () => ({ ratio }) };
  const compaction = { contextWindow: 2_000, reserveTokens: 1_500 };
  const { session, store } = await plant({ policy, compaction, log: QUIET });
  for (const _ of [1, 2]) {
    const prepared = await session.prepareRequest();
    expect(prepared.compaction).toBeNull();
    expect(prepared.failure?.message).toContain("details.ratio is NaN");
  }
  ratio = 1;
  expect(await session.prepareRequest()).toMatchObject({ failure: null, compaction: { eligible: true } });
  await contextOf(session, store);
});

const QUIET = { warn: () => {}, error: () => {} };
