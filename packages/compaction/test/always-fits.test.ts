import { compact, DEFAULT_COMPACTION_SETTINGS, type PrepareOptions, thresholdOf } from "@espalier/compaction";
import {
  anthropicFormat,
  buildRequest,
  type ContextMessage,
  compaction,
  contextEdit,
  contextOfPath,
  type Entry,
  estimateTotal,
} from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { extractiveSummarizer, upperBoundEstimator } from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { image, PathBuilder, planned, text, words } from "./build-path.ts";

type Settings = Partial<typeof DEFAULT_COMPACTION_SETTINGS>;

/** What a model reads after the path is compacted, and whether a provider takes it. */
async function compacted(path: PathBuilder, settings: Settings = {}, options: PrepareOptions = {}) {
  const plan = planned(path, settings, options);
  const { summary } = await compact(plan, { summarizer: extractiveSummarizer() });
  const id = "compaction";
  const { firstKeptEntryId, tokensBefore } = plan;
  const added = [
    compaction.of({ id, summary, firstKeptEntryId: firstKeptEntryId ?? id, tokensBefore }),
    ...plan.edits.map((edit, at) => contextEdit.of({ id: `edit-${at}`, ...edit })),
  ].map((entry) => ({ parentId: null, timestamp: "", ...entry }) as Entry);
  const context = contextOfPath([...path.entries, ...added]);
  const request = buildRequest(context, { format: anthropicFormat });
  const problems = checkAnthropicRequest({ model: "claude", max_tokens: 1, ...request });
  return { plan, summary, context, problems };
}

const upperBound = (messages: readonly ContextMessage[]) =>
  messages.reduce((sum, message) => sum + upperBoundEstimator.estimate(message), 0);

async function expectFits(path: PathBuilder, settings: Settings = {}, options: PrepareOptions = {}) {
  const done = await compacted(path, settings, options);
  const most = thresholdOf({ ...DEFAULT_COMPACTION_SETTINGS, ...settings }) - (options.overheadTokens ?? 0);
  expect(estimateTotal(done.context.messages)).toBeLessThanOrEqual(most);
  expect(estimateTotal(done.context.messages)).toBeLessThan(done.plan.tokensBefore);
  expect(done.problems).toEqual([]);
  return done;
}

describe("any history becomes a valid request below the threshold", () => {
  test("ten times the window", async () => {
    const path = new PathBuilder();
    for (let turn = 0; turn < 200; turn++) {
      path.user(words(500));
      path.tool("read", { path: `${turn}.ts` }, words(9_000));
      path.answer(words(500));
    }
    await expectFits(path);
    await expectFits(path, {}, { isOverflow: true });
  });

  test("one result of five million characters", async () => {
    const path = new PathBuilder();
    path.user("read it");
    path.tool("read", { path: "big" }, `BEGIN${"x".repeat(5_000_000)}END`);
    const { plan, context } = await expectFits(path);
    expect(plan.edits).toHaveLength(1);
    const result = JSON.stringify(context.messages.at(-1));
    expect(result).toMatch(/BEGIN.*\[… \d+ characters left out\].*END/);
    path.answer("It is big.");
    await expectFits(path, { keepRecentTokens: 1_000 });
  });

  test("five hundred images, in the history, in results and in the newest message", async () => {
    const path = new PathBuilder();
    for (let at = 0; at < 200; at++) path.user([text("look"), image()] as never);
    const [call] = path.call([{ name: "screenshot", arguments: {} }]);
    path.result(call!, Array.from({ length: 150 }, image));
    path.answer("I see.");
    const newest = path.user([text("and these"), ...Array.from({ length: 150 }, image)] as never);
    const { context } = await expectFits(path, { contextWindow: 100_000 });
    const last = context.messages.at(-1)!;
    expect(JSON.stringify(last)).toContain("and these");
    expect(JSON.stringify(last)).toContain("[image left out]");
    expect(context.sources.at(-1)).toBe(newest);
  });

  test("forty calls with results of 80,000 characters in one turn, one after the other and in parallel", async () => {
    const loop = new PathBuilder();
    loop.user("read everything");
    for (let at = 0; at < 40; at++) loop.tool("read", { path: `${at}` }, words(20_000));
    await expectFits(loop);
    const parallel = new PathBuilder();
    parallel.user("read everything");
    const calls = parallel.call(
      Array.from({ length: 40 }, (_, at) => ({ name: "read", arguments: { path: `${at}` } })),
    );
    for (const call of calls) parallel.result(call, words(20_000));
    const { plan, context } = await expectFits(parallel);
    expect(plan.edits).toHaveLength(40);
    const sizes = context.messages.slice(2).map((message) => estimateTotal([message]));
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThan(50);
  });

  test("an answer or a shell run larger than any window is summarized, even if it is the newest", async () => {
    const path = new PathBuilder();
    path.user("write it");
    path.answer(words(400_000));
    expect((await expectFits(path)).plan.firstKeptEntryId).toBeNull();
    const shell = new PathBuilder();
    shell.user("look at this");
    shell.answer("ok");
    shell.say({ role: "bashExecution", command: "yes", output: words(400_000), exitCode: 0 });
    await expectFits(shell);
  });

  test("after an overflow, the request fits by an upper bound of its tokens, even for dense text", async () => {
    const path = new PathBuilder();
    path.user("读取文件".repeat(200));
    path.answer("好的".repeat(4_000));
    for (let at = 0; at < 30; at++) path.tool("read", { path: `${at}` }, "数据".repeat(4_000));
    path.answer("", { stopReason: "error", errorMessage: "prompt is too long" });
    const settings = { contextWindow: 40_000, reserveTokens: 4_000 };
    const { context } = await expectFits(path, settings, { isOverflow: true });
    expect(upperBound(context.messages)).toBeLessThanOrEqual(36_000);
    const trusting = await expectFits(path, settings);
    expect(upperBound(trusting.context.messages)).toBeGreaterThan(36_000);
  });

  test("after an overflow, something is compacted even if the estimate finds the context small", () => {
    const path = new PathBuilder();
    for (let at = 0; at < 10; at++) path.user(words(1_000));
    expect(planned(path, {}, { isOverflow: true }).historyIds.length).toBeGreaterThan(0);
  });

  test("after an overflow, a system prompt that only the upper bound finds too large does not end the session", () => {
    const path = new PathBuilder();
    path.say({ role: "system", content: words(5_000) });
    for (let at = 0; at < 10; at++) path.user(words(1_000));
    const settings = { contextWindow: 12_000, reserveTokens: 2_000 };
    expect(planned(path, settings, { isOverflow: true }).tokensAfter).toBeLessThanOrEqual(12_000);
  });

  test("a compaction that is due happens even if the context is smaller than keepRecentTokens", async () => {
    const path = new PathBuilder();
    for (let at = 0; at < 12; at++) {
      path.user(words(500));
      path.answer(words(500));
    }
    await expectFits(path, { contextWindow: 16_000, reserveTokens: 8_000 });
    const giant = new PathBuilder();
    giant.user("go");
    giant.tool("read", {}, words(15_000));
    await expectFits(giant, { contextWindow: 12_000, reserveTokens: 2_000 });
  });

  test("system prompt and tools count against the window", async () => {
    const path = new PathBuilder();
    path.user("go");
    for (let at = 0; at < 20; at++) path.tool("read", {}, words(10_000));
    const { plan } = await expectFits(path, {}, { overheadTokens: 175_000 });
    expect(plan.tokensAfter).toBeLessThan(8_616);
  });

  test("long texts of the user in the summary blocks are cut if the window is too small", async () => {
    const path = new PathBuilder();
    path.user(words(30_000, "g"));
    path.answer("ok");
    path.user(words(30_000, "l"));
    path.tool("read", {}, words(5_000));
    path.answer(words(5_000));
    const pinned = [{ id: "e1", text: words(30_000, "p") }];
    const settings = { contextWindow: 40_000, reserveTokens: 30_000, keepRecentTokens: 5_000 };
    const { summary } = await expectFits(path, settings, { pinned });
    for (const letter of "glp") expect(summary).toMatch(new RegExp(`${letter}{100}\\n\\[… \\d+ characters`));
  });
});

describe("an unanswered message of the user", () => {
  test("is kept word for word, whatever else must be removed", async () => {
    const path = new PathBuilder();
    path.user("old");
    path.answer(words(90_000));
    const waiting = path.user(words(150_000));
    const { plan, context } = await expectFits(path);
    expect(plan.firstKeptEntryId).toBe(waiting);
    expect(context.messages.at(-1)).toMatchObject({ content: words(150_000) });
  });

  test("may exceed the threshold if the window is large enough", async () => {
    const path = new PathBuilder();
    path.user("old");
    path.answer(words(10_000));
    const waiting = path.user(words(190_000));
    const { plan, context, problems } = await compacted(path);
    expect(plan.firstKeptEntryId).toBe(waiting);
    expect(estimateTotal(context.messages)).toBeLessThanOrEqual(200_000);
    expect(problems).toEqual([]);
  });

  test("that exceeds the window is the only remaining error", () => {
    const path = new PathBuilder();
    path.user("old");
    path.answer(words(10_000));
    path.user(words(199_500));
    const failure = { code: "irreducible", breakdown: { newestUserMessage: 199_500 } };
    expect(() => planned(path)).toThrow(expect.objectContaining({ code: "irreducible" }));
    for (const options of [{}, { isOverflow: true }, { overheadTokens: 50_000 }])
      try {
        planned(path, {}, options);
        expect.unreachable();
      } catch (error) {
        expect(error).toMatchObject(failure);
      }
    expect(() => planned(path, { contextWindow: 1_000_000, keepRecentTokens: 150_000 })).not.toThrow();
  });

  test("is not blamed for the messages after it", async () => {
    const path = new PathBuilder();
    path.user("old");
    path.answer(words(10_000));
    path.user(words(60_000));
    path.add({ type: "custom_message", customType: "dump", content: words(400_000), display: true });
    await expectFits(path);
  });
});

describe("windows of any size", () => {
  test("a reserve that exceeds a smaller model's window leaves half of the window", () => {
    expect(thresholdOf({ contextWindow: 272_000, reserveTokens: 800_000 })).toBe(136_000);
    expect(thresholdOf({ contextWindow: 200_000, reserveTokens: 16_384 })).toBe(183_616);
    expect(thresholdOf({ contextWindow: 17_000, reserveTokens: 16_384 })).toBe(616);
  });

  test("property: in any window of 1,500 tokens or more a history becomes smaller and fits", async () => {
    const turn = fc.record({
      user: fc.integer({ min: 1, max: 400 }),
      calls: fc.integer({ min: 0, max: 3 }),
      result: fc.integer({ min: 0, max: 6_000 }),
      answer: fc.integer({ min: 1, max: 600 }),
    });
    const property = fc.asyncProperty(
      fc.array(turn, { minLength: 8, maxLength: 20 }),
      fc.integer({ min: 1_500, max: 30_000 }),
      fc.integer({ min: 0, max: 20_000 }),
      fc.integer({ min: 0, max: 30_000 }),
      fc.boolean(),
      async (turns, contextWindow, reserveTokens, keepRecentTokens, isOverflow) => {
        const path = new PathBuilder();
        path.user(words(1_000));
        path.answer(words(2_500));
        for (const { user, calls, result, answer } of turns) {
          path.user(words(user));
          for (let call = 0; call < calls; call++) path.tool("read", { path: `${call}` }, words(result));
          path.answer(words(answer));
        }
        // Less than that is left of no model.
        fc.pre(thresholdOf({ contextWindow, reserveTokens }) >= 1_200);
        const before = estimateTotal(contextOfPath(path.entries).messages);
        fc.pre(before > Math.max(keepRecentTokens, contextWindow) || isOverflow);
        await expectFits(path, { contextWindow, reserveTokens, keepRecentTokens }, { isOverflow });
      },
    );
    // Both lacked the room of the note that follows a summary's prose.
    const quiet = (user: number, answer: number) => ({ user, calls: 0, result: 0, answer });
    const whole = [quiet(3, 1), quiet(1, 1), { user: 82, calls: 3, result: 0, answer: 1 }, quiet(9, 99)];
    const rest = [
      { user: 9, calls: 2, result: 678, answer: 187 },
      { user: 69, calls: 1, result: 1_490, answer: 543 },
      quiet(213, 170),
      { user: 100, calls: 3, result: 101, answer: 74 },
    ];
    const split = [
      ...Array.from({ length: 5 }, () => quiet(1, 1)),
      { user: 1, calls: 2, result: 3_030, answer: 158 },
      { user: 359, calls: 1, result: 1_405, answer: 58 },
      { user: 64, calls: 3, result: 455, answer: 127 },
    ];
    await fc.assert(property, {
      numRuns: 80,
      examples: [
        [[...whole, ...rest], 1_500, 9, 2_637, false],
        [split, 1_500, 0, 3_036, false],
      ],
    });
  });
});
