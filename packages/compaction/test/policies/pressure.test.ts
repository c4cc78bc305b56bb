import { DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import {
  CompactionTrigger,
  DEFAULT_PRESSURE_SETTINGS,
  EventBus,
  EventType,
  HistoryPruner,
  pressure,
  progressMessage,
  SessionCompactor,
  type SessionCompactorOptions,
  TokenCounter,
} from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import { type ContextMessage, type Entry, toolCalls } from "@espalier/session-tree";
import { failingAnswer, hangingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answer, calling, pathOf, planned, result, situationAt, user } from "./conversation.ts";

/** Prose of so many tokens, as words are counted. */
const words = (tokens: number) => "word ".repeat(Math.floor(tokens / 0.75)).trim();
const says = (tokens: number) => user(words(tokens));

describe("counting", () => {
  test.each([
    ["a word is three quarters", "three words here", 2.25],
    ["a Chinese character is half", "中文字符", 2],
    ["code in a fence counts identifiers and numbers", "```\nfoo bar 12\n```", 3 * 0.75 + 6 * 0.25],
    ["every other visible character is a quarter", "?! …", 0.75],
    ["a number outside code is made of special characters", "42", 0.5],
  ])("%s", (_, text, weight) => {
    expect(TokenCounter.text(text)).toBe(Math.ceil(weight));
    expect(TokenCounter.estimate(user(text))).toBe(Math.ceil(weight));
  });

  test("calls and results count as code", () => {
    // read, path, a, txt: four tokens; the quotes, braces, colon and dot are special.
    const call = calling("a");
    expect(TokenCounter.estimate(call)).toBe(Math.ceil(4 * 0.75 + 8 * 0.25));
    expect(TokenCounter.estimate(result("a", "x1 = 2"))).toBe(Math.ceil(2 * 0.75 + 0.25));
  });

  test("a request counts history, system prompt, and fifty", () => {
    expect(TokenCounter.request([user("one word"), answer("two words")], "be brief")).toBe(2 + 2 + 2 + 50);
  });
});

describe("levels", () => {
  test("the defaults are the document's", () => {
    expect(DEFAULT_PRESSURE_SETTINGS).toEqual({
      maxContextTokens: 8_000,
      compactionThreshold: 75,
      criticalThreshold: 90,
    });
  });

  test.each([
    [0, "NONE"],
    [5_999, "NONE"],
    [6_000, "WARNING"],
    [7_199, "WARNING"],
    [7_200, "CRITICAL"],
    [9_000, "CRITICAL"],
  ])("%i of 8,000 tokens give %s", (tokens, level) => {
    expect(CompactionTrigger.checkLevel(tokens)).toBe(level);
  });

  test("a threshold above 90 % gives CRITICAL directly", () => {
    expect(CompactionTrigger.checkLevel(7_500, { compactionThreshold: 95 })).toBe("NONE");
    expect(CompactionTrigger.checkLevel(7_600, { compactionThreshold: 95 })).toBe("CRITICAL");
  });

  test.each([
    [{ compactionThreshold: 101 }, /compactionThreshold.*from 1 to 100/],
    [{ maxContextTokens: 0 }, /maxContextTokens/],
  ])("%j are refused", (settings, message) => {
    expect(() => pressure(settings)).toThrow(EspalierError);
    expect(() => pressure(settings)).toThrow(message);
  });
});

describe("pruning", () => {
  const one = () => 1;
  const keptOf = (messages: ContextMessage[], budget: number) =>
    HistoryPruner.prune(messages, budget, one).keptIndexes;

  test("keeps system, newest user, newest answer and five newest tool messages under any budget", () => {
    const system = { role: "system" as const, content: "be kind", timestamp: 1 };
    const tools = Array.from({ length: 7 }, (_, at) => [calling(`t${at}`), result(`t${at}`)]).flat();
    const messages = [
      system,
      user("old"),
      answer("old"),
      ...tools,
      user("new"),
      answer("new"),
      user("newest"),
    ];
    // The two oldest pairs, the older prompts and the older answer go.
    expect(keptOf(messages, 0)).toEqual([0, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19]);
  });

  test("fills the rest with other messages, newest first, before any older tool result", () => {
    const tools = Array.from({ length: 6 }, (_, at) => [calling(`t${at}`), result(`t${at}`)]).flat();
    const messages = [user("a"), ...tools, answer("b"), user("c"), answer("d")];
    const required = 12; // five pairs, the newest prompt, the newest answer
    expect(keptOf(messages, required)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15]);
    expect(keptOf(messages, required + 1)).toContain(13);
    expect(keptOf(messages, required + 2)).toContain(0);
    expect(keptOf(messages, required + 3)).not.toContain(1);
    expect(keptOf(messages, required + 4)).toHaveLength(16);
  });

  test("skips a message that does not fit, and keeps an older one that does", () => {
    const messages = [user("small"), user("large"), user("new"), answer("new")];
    const sizes = new Map(messages.map((message, at) => [message, [1, 9, 1, 1][at]!]));
    const pruned = HistoryPruner.prune(messages, 4, (message) => sizes.get(message as never)!);
    expect(pruned.keptIndexes).toEqual([0, 2, 3]);
    expect(pruned.removed).toEqual([messages[1]]);
  });

  test("keeps the results of the newest answer, and parallel calls whole", () => {
    const messages = [user("a"), calling("x", "y"), result("x"), result("y")];
    expect(keptOf(messages, 0)).toEqual([0, 1, 2, 3]);
  });

  test("never keeps a result without its call, and never treats a failed answer as the newest", () => {
    const failed = { ...answer("…"), stopReason: "error" as const };
    expect(keptOf([result("lost"), user("a"), answer("b"), failed], 0)).toEqual([1, 2]);
    expect(keptOf([result("lost"), user("a")], 99)).toEqual([1]);
  });

  test("divides every history in two, with whole pairs, within the budget or with only the required messages", () => {
    const message = fc.oneof(
      fc.constant("u"),
      fc.constant("a"),
      fc.record({ calls: fc.integer({ min: 1, max: 3 }), answered: fc.integer({ min: 0, max: 3 }) }),
    );
    fc.assert(
      fc.property(fc.array(message, { maxLength: 40 }), fc.integer({ min: 0, max: 60 }), (shape, budget) => {
        const messages = shape.flatMap((part, at): ContextMessage[] => {
          if (part === "u") return [user(`u${at}`)];
          if (part === "a") return [answer(`a${at}`)];
          const ids = Array.from({ length: part.calls }, (_, n) => `${at}-${n}`);
          return [calling(...ids), ...ids.slice(0, part.answered).map((id) => result(id))];
        });
        const { kept, removed, keptIndexes } = HistoryPruner.prune(messages, budget, one);
        expect(kept).toEqual(keptIndexes.map((index) => messages[index]));
        expect(kept.length + removed.length).toBe(messages.length);
        const ids = (some: readonly ContextMessage[]) =>
          new Set(some.flatMap((said) => toolCalls(said).map(({ id }) => id)));
        for (const [some, other] of [
          [kept, ids(removed)],
          [removed, ids(kept)],
        ] as const) {
          expect(some.some((said) => said.role === "toolResult" && other.has(said.toolCallId))).toBe(false);
        }
        const required = HistoryPruner.prune(messages, 0, one).kept.length;
        expect(kept.length).toBeLessThanOrEqual(Math.max(budget, required));
      }),
    );
  });

  test("counts each message once, for any number of messages, and none again", () => {
    const messages = Array.from({ length: 500 }, (_, at) => [says(20 + (at % 30)), answer(words(30))]).flat();
    let weighed = 0;
    HistoryPruner.prune(messages, 10_000, () => ++weighed);
    expect(weighed).toBe(1_000);
    let reads = 0;
    const get: ProxyHandler<ContextMessage>["get"] = (message, key) => {
      reads++;
      return Reflect.get(message, key);
    };
    const watched = messages.map((message) => new Proxy(message, { get }));
    const tokens = TokenCounter.messages(watched);
    expect(reads).toBeGreaterThan(0);
    reads = 0;
    expect(TokenCounter.messages([...watched, user("one more")])).toBe(tokens + 2);
    expect(reads).toBe(0);
  });
});

describe("the policy", () => {
  const path = (tokens: number): Entry[] =>
    pathOf(Array.from({ length: tokens / 100 }, (_, at) => (at % 2 ? answer(words(100)) : says(100))));

  test("counts history, system prompt and tools, and fifty", () => {
    expect(pressure().judge(situationAt(path(5_900)))).toBeUndefined();
    expect(pressure().judge(situationAt(path(5_900), { overheadTokens: 49 }))).toBeUndefined();
    expect(pressure().judge(situationAt(path(5_900), { overheadTokens: 50 }))).toBe("threshold");
    expect(pressure().fill!(situationAt(path(6_700), { overheadTokens: 50 }))).toBe(0.85);
    expect(progressMessage(0.85)).toBe("Context at 85% - compacting");
  });

  test.each([
    ["warning", 6_500, 5_600],
    ["critical", 7_500, 4_800],
  ])("at %s prunes to its target, with the summary included", (_, tokens, target) => {
    const plan = planned(pressure(), path(tokens), { overheadTokens: 100 });
    expect(plan.tokensAfter + 100 + 50).toBeLessThanOrEqual(target);
    expect(plan.tokensAfter).toBeGreaterThan(target - 150 - 400);
    expect(plan.historyIds.length + plan.keptIds.length).toBe(tokens / 100);
  });

  test("removes later gaps by edits, and summarizes all removed messages", () => {
    const tools = Array.from({ length: 8 }, (_, at) => [
      calling(`t${at}`),
      result(`t${at}`, words(800)),
    ]).flat();
    const plan = planned(
      pressure({ maxContextTokens: 8_500 }),
      pathOf([says(100), ...tools, answer("done"), user("thanks")]),
    );
    expect(plan.firstKeptEntryId).toBe("e0");
    const gone = plan.edits.filter(({ replacement }) => replacement === null).map(({ targetId }) => targetId);
    expect(gone).toEqual(["e1", "e2", "e3", "e4", "e5", "e6"]);
    expect(plan.historyIds).toEqual(gone);
  });

  test("shortens a required message that does not fit", () => {
    const tools = Array.from({ length: 5 }, (_, at) => [
      calling(`t${at}`),
      result(`t${at}`, words(2_000)),
    ]).flat();
    const plan = planned(pressure(), pathOf([says(100), answer("begin"), ...tools, says(50), answer("end")]));
    expect(plan.tokensAfter).toBeLessThanOrEqual(4_800);
    const shortened = plan.edits.filter(({ replacement }) => replacement !== null);
    expect(shortened.length).toBeGreaterThan(0);
  });

  test("uses the provider's count if there is one, and counts words after it", () => {
    const usage = { input: 5_000, output: 400, cacheRead: 0, cacheWrite: 0 };
    const reported = (more: ContextMessage[]) =>
      situationAt(pathOf([says(100), { ...answer("done"), usage } as ContextMessage, ...more]), {
        overheadTokens: 2_000,
      });
    expect(pressure().judge(reported([says(599)]))).toBeUndefined();
    expect(pressure().judge(reported([says(600)]))).toBe("threshold");
    expect(pressure().fill!(reported([says(600)]))).toBe(0.75);
    // One reported before a compaction no longer describes the context.
    const edited = reported([says(600)]);
    const context = { ...edited.context, prefixChanged: edited.context.messages.map(() => true) };
    expect(pressure().judge({ ...edited, context })).toBeUndefined();
  });

  test("prunes further if the provider counts more than the words", () => {
    const usage = { input: 7_600, output: 0, cacheRead: 0, cacheWrite: 0 };
    const messages = Array.from({ length: 40 }, (_, at) => (at % 2 ? answer(words(95)) : says(95)));
    const plan = planned(pressure(), pathOf([...messages, { ...answer("end"), usage } as ContextMessage]));
    // To 60 % of 8,000, of which words are told to be half.
    expect(plan.tokensAfter).toBeLessThanOrEqual(2_430);
    expect(plan.tokensAfter).toBeGreaterThan(1_800);
  });

  test("does not repeat a single kept prompt as the goal, but one of several", () => {
    const middle = Array.from({ length: 30 }, () => answer(words(100)));
    const sole = planned(pressure(), pathOf([says(100), ...middle]));
    expect(sole.keptIds[0]).toBe("e0");
    expect(sole.blocks).not.toHaveProperty("goal");
    const two = planned(pressure(), pathOf([user("first"), ...middle, user("last"), answer("done")]));
    expect(two.blocks).toMatchObject({ goal: "first" });
  });

  test("removes something on command below every level too", () => {
    const plan = planned(pressure(), path(3_000));
    expect(plan.historyIds.length).toBeGreaterThan(5);
    expect(plan.tokensAfter).toBeLessThanOrEqual(2_050);
  });

  test("has nothing to compact on command only if all remaining messages are required", () => {
    expect(pressure().plan(situationAt(pathOf([])), {})).toEqual({
      eligible: false,
      reason: "Nothing to compact: there are no messages yet.",
    });
    expect(pressure().plan(situationAt(path(200)), {})).toMatchObject({
      eligible: false,
      reason: expect.stringMatching(/^Nothing to compact: all 2 messages are among those that always stay/),
    });
    expect(pressure().plan(situationAt(path(300)), {})).toMatchObject({ eligible: true, historyIds: ["e0"] });
  });

  test("keeps the reserve for the answer: at most the window less the reserve is full", () => {
    const settings = { ...DEFAULT_COMPACTION_SETTINGS, contextWindow: 8_000, reserveTokens: 4_000 };
    expect(pressure().judge(situationAt(path(2_900), { settings }))).toBeUndefined();
    expect(pressure().judge(situationAt(path(3_000), { settings }))).toBe("threshold");
    expect(planned(pressure(), path(3_000), { settings }).tokensAfter).toBeLessThanOrEqual(2_800);
  });

  test("reaches its levels earlier for a model with a smaller window", () => {
    const settings = { ...DEFAULT_COMPACTION_SETTINGS, contextWindow: 4_000 };
    expect(pressure().judge(situationAt(path(3_000), { settings }))).toBe("threshold");
    expect(planned(pressure(), path(3_000), { settings }).tokensAfter).toBeLessThan(2_800);
  });
});

describe("a plain history", () => {
  const history = Array.from({ length: 68 }, (_, at) => (at % 2 ? answer(words(100)) : says(100)));

  function compactor(
    script: Parameters<typeof scriptedSummarizer>[0],
    options: SessionCompactorOptions = {},
  ) {
    const told: unknown[] = [];
    const errors: string[] = [];
    const events = new EventBus();
    for (const type of Object.values(EventType))
      events.subscribe(type, (payload: unknown) => void told.push([type, payload]));
    const summarizer = scriptedSummarizer(script);
    const kept: unknown[] = [];
    const manager = { compactSession: (...given: unknown[]) => void kept.push(given) };
    const log = { warn: () => {}, error: (message: string) => void errors.push(message) };
    const it = new SessionCompactor(summarizer, manager, { events, log, ...options });
    return { it, told, errors, summarizer, kept };
  }

  test("is pruned, summarized, kept and reported", async () => {
    const { it, told, kept } = compactor("What was said before.");
    const outcome = await it.maybeCompact("s1", history, "");
    expect(outcome).toMatchObject({ performed: true, level: "WARNING", tokensBefore: 6_850 });
    expect(outcome.tokensAfter).toBeLessThanOrEqual(5_600);
    const { tokensBefore, tokensAfter, messagesRemoved, messages } = outcome;
    expect(messages).toHaveLength(68 - messagesRemoved + 1);
    expect(messages[0]).toMatchObject({ role: "compactionSummary", summary: "What was said before." });
    expect(kept).toEqual([["s1", messages, "What was said before."]]);
    expect(told).toEqual([
      ["PROGRESS_UPDATE", { message: "Context at 86% - compacting" }],
      ["STATE_CHANGED", { name: "session.compaction", data: { tokensBefore, tokensAfter, messagesRemoved } }],
    ]);
  });

  test("the system prompt counts", async () => {
    const { it } = compactor("Short.");
    const short = history.slice(0, 50);
    expect(await it.maybeCompact("s", short, "")).toMatchObject({ level: "NONE", performed: false });
    expect(await it.maybeCompact("s", short, words(950))).toMatchObject({
      level: "WARNING",
      performed: true,
    });
    expect(await it.maybeCompact("s", short, words(2_200))).toMatchObject({ level: "CRITICAL" });
  });

  test("without a message that may go, nothing is requested or written", async () => {
    const { it, told, summarizer, kept } = compactor("never");
    const outcome = await it.maybeCompact("s", history.slice(0, 1), words(9_000));
    expect(outcome).toMatchObject({ performed: false, level: "CRITICAL", messagesRemoved: 0 });
    expect([told, summarizer.requests, kept]).toEqual([[], [], []]);
  });

  test("below 75 % is not pruned, and nothing is requested or written", async () => {
    const { it, told, summarizer, kept } = compactor("never");
    const outcome = await it.maybeCompact("s", history.slice(0, 59), "");
    expect(outcome).toMatchObject({
      performed: false,
      level: "NONE",
      tokensBefore: 5_950,
      tokensAfter: 5_950,
    });
    expect(outcome.messages).toEqual(history.slice(0, 59));
    expect([told, summarizer.requests, kept]).toEqual([[], [], []]);
  });

  test("is unchanged after a failure, which is logged and reported", async () => {
    const { it, told, errors } = compactor(() => failingAnswer("unauthorized"));
    const outcome = await it.maybeCompact("s1", history, "");
    expect(outcome).toMatchObject({ performed: false, messagesRemoved: 0, tokensAfter: 6_850 });
    expect(outcome.messages).toEqual(history);
    expect(errors).toEqual([expect.stringContaining("s1 was not compacted")]);
    expect(told.at(-1)).toEqual(["ERROR", { name: "session.compaction", message: errors[0] }]);
  });

  test("that cannot be stored is a failure too", async () => {
    const manager = { compactSession: () => Promise.reject(new Error("disk full")) };
    const log = { warn: () => {}, error: () => {} };
    const it = new SessionCompactor(scriptedSummarizer("x"), manager, { log });
    expect(await it.maybeCompact("s", history, "")).toMatchObject({ performed: false });
  });

  test("is unchanged, without a request, if less than 1 % of the limit may go", async () => {
    const { it, summarizer, told } = compactor("never");
    const large = [user("hi"), answer("ok"), says(9_000)];
    expect(await it.maybeCompact("s", large, "")).toMatchObject({ performed: false, messages: large });
    expect([summarizer.requests, told]).toEqual([[], []]);
  });

  test("is compacted if only a few messages may go, and a short summary of them is smaller", async () => {
    const { it } = compactor(words(20));
    const large = [says(1_000), answer(words(100)), says(6_500)];
    const outcome = await it.maybeCompact("s", large, "");
    expect(outcome).toMatchObject({ performed: true, level: "CRITICAL", messagesRemoved: 1 });
    expect(outcome.tokensAfter).toBeLessThan(outcome.tokensBefore - 900);
  });

  test("is unchanged, and the failure is reported, if its summary is not smaller than the messages", async () => {
    const { it, errors, kept } = compactor(words(6_000));
    const outcome = await it.maybeCompact("s1", history, "");
    expect(outcome).toMatchObject({ performed: false, messages: history });
    expect(errors).toEqual([
      expect.stringContaining("s1 was not compacted, and is unchanged: its summary is not"),
    ]);
    expect(kept).toEqual([]);
  });

  test("is unchanged with autoCompact off", async () => {
    const { it, summarizer } = compactor("never", { autoCompact: false });
    expect(await it.maybeCompact("s", history, "")).toMatchObject({ performed: false, level: "WARNING" });
    expect(summarizer.requests).toEqual([]);
  });

  test("throws an abort, and does not report it as a failure", async () => {
    const stop = new AbortController();
    const { it } = compactor(hangingAnswer(), { signal: stop.signal });
    const running = it.maybeCompact("s", history, "");
    stop.abort();
    await expect(running).rejects.toMatchObject({ code: "aborted" });
  });

  test("reports a listener that throws, and continues", async () => {
    const heard: unknown[] = [];
    const events = new EventBus((error) => void heard.push(error));
    const oops = new Error("oops");
    const stop = events.subscribe(EventType.PROGRESS_UPDATE, () => {
      throw oops;
    });
    const it = new SessionCompactor(scriptedSummarizer("x"), undefined, { events });
    expect(await it.maybeCompact("s", history, "")).toMatchObject({ performed: true });
    expect(heard).toEqual([oops]);
    stop();
    events.publish(EventType.PROGRESS_UPDATE, { message: "again" });
    expect(heard).toHaveLength(1);
  });
});
