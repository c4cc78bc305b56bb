import { compact, HISTORY_SECTIONS, omittedEntries, TURN_PREFIX_SECTIONS } from "@espalier/compaction";
import { EspalierError } from "@espalier/jsonl-stream";
import type { Usage } from "@espalier/session-tree";
import type { SummaryRequest } from "@espalier/summarizer";
import { failingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { PathBuilder, planned, words } from "./build-path.ts";

const sections = (names: readonly string[], said = "(none)") =>
  names.map((name) => `## ${name}\n${said}`).join("\n");
const answerTo = ({ sections: wanted, purpose }: SummaryRequest) => sections(wanted, `told by ${purpose}`);
const billed = (input: number): Usage => ({
  input,
  output: 1,
  cacheRead: 0,
  cacheWrite: 0,
  cost: { total: input },
});

/** History of two messages, and a turn of which four are cut away. */
function splitTurn() {
  const path = new PathBuilder();
  path.user("old question");
  path.answer("old answer");
  path.user("the question of this turn");
  path.tool("read", { path: "a.ts" }, "text of a");
  path.answer("half way");
  path.answer(words(10));
  return planned(path, { keepRecentTokens: 10 });
}

describe("a split turn", () => {
  test("requests both summaries before either is answered, and joins them", async () => {
    const summarizer = scriptedSummarizer(async (request, n) => {
      if (n === 1) await new Promise((resolve) => setTimeout(resolve, 20));
      return answerTo(request);
    });
    const plan = splitTurn();
    const result = await compact(plan, { summarizer });
    expect(summarizer.events).toEqual(["request 1", "request 2", "answer 2", "answer 1"]);
    const [history, prefix] = summarizer.requests;
    expect(history).toMatchObject({
      purpose: "history",
      messages: plan.messagesToSummarize,
      following: plan.turnPrefixMessages,
    });
    expect(prefix).toMatchObject({ purpose: "turn-prefix", messages: plan.turnPrefixMessages });
    expect(prefix!.following).toBeUndefined();
    expect(history!.sections).toEqual(HISTORY_SECTIONS);
    expect(prefix!.sections).toEqual(TURN_PREFIX_SECTIONS);
    const joint = "\n\n---\n\n# Beginning of the current turn\n\n".length / 4;
    expect(history!.maxOutputTokens + prefix!.maxOutputTokens).toBe(plan.maxSummaryTokens - Math.ceil(joint));
    const { prose } = result;
    expect(prose.indexOf("told by history")).toBeLessThan(
      prose.indexOf("\n\n---\n\n# Beginning of the current turn"),
    );
    expect(prose.indexOf("# Beginning of the current turn")).toBeLessThan(
      prose.indexOf("told by turn-prefix"),
    );
    expect(result.summary).toContain(
      "<latest-user-message>\nthe question of this turn\n</latest-user-message>",
    );
    expect(result.summary).toContain("<read-files>\na.ts\n</read-files>");
  });

  test("has a summary of at most the size that one answer may have", async () => {
    const summarizer = { ...scriptedSummarizer(answerTo), maxOutputTokens: 1_000 };
    const path = new PathBuilder();
    path.user(words(9_000));
    path.answer("old answer");
    path.user("the question of this turn");
    path.answer(words(9_000));
    path.tool("read", { path: "a.ts" }, words(9_000));
    path.answer(words(10));
    const plan = planned(path, { keepRecentTokens: 10 });
    expect(plan.isSplitTurn).toBe(true);
    await compact(plan, { summarizer });
    const given = summarizer.requests.map(({ maxOutputTokens }) => maxOutputTokens);
    expect(given).toEqual([330, 660]);
  });

  test("leaves the history room for the previous summary, however little of the history is new", async () => {
    const summarizer = { ...scriptedSummarizer(answerTo), maxOutputTokens: 2_000 };
    const path = new PathBuilder();
    path.user("first");
    const kept = path.user("second");
    path.compaction(kept, words(1_200));
    path.answer("third");
    path.user("the question of this turn");
    path.tool("read", { path: "a.ts" }, words(9_000));
    path.answer(words(10));
    const plan = planned(path, { keepRecentTokens: 10 });
    await compact(plan, { summarizer });
    const [history, prefix] = summarizer.requests;
    expect(history).toMatchObject({ purpose: "history", messages: plan.messagesToSummarize });
    expect(history!.maxOutputTokens).toBeGreaterThanOrEqual(plan.previousSummary!.length / 4);
    expect(prefix!.maxOutputTokens).toBeGreaterThanOrEqual(500);
  });

  test("tells the history's request which request follows, and that it is not a next step", async () => {
    const summarizer = scriptedSummarizer(answerTo);
    await compact(splitTurn(), { summarizer });
    const [history, prefix] = summarizer.requests;
    expect(history!.instructions).toContain('"the question of this turn"');
    expect(history!.instructions).toContain("name only what remains besides it");
    expect(prefix!.instructions).not.toContain("the question of this turn");
  });

  test("that begins with `continue` has the request that it continues in its summary", async () => {
    const path = new PathBuilder();
    path.user("Write the parser of rows");
    path.answer("old answer");
    path.user("continue");
    path.tool("read", { path: "a.ts" }, "text of a");
    path.answer("half way");
    path.answer(words(10));
    const summarizer = scriptedSummarizer(answerTo);
    await compact(planned(path, { keepRecentTokens: 10 }), { summarizer });
    const prefix = summarizer.requests.find(({ purpose }) => purpose === "turn-prefix");
    expect(prefix!.instructions).toContain('an earlier request of the user: "Write the parser of rows"');
  });

  test("requests one part after the other if the server takes one request at a time", async () => {
    const summarizer = scriptedSummarizer(answerTo);
    await compact(splitTurn(), { summarizer, concurrency: 1 });
    expect(summarizer.events).toEqual(["request 1", "answer 1", "request 2", "answer 2"]);
  });

  test("has the same authors in the same order, whichever part is answered first", async () => {
    const plan = splitTurn();
    const sources = { history: "one", "turn-prefix": "two" } as Record<string, string>;
    const model = (request: SummaryRequest) => ({ provider: "p", modelId: sources[request.purpose]! });
    for (const slow of Object.keys(sources)) {
      const summarizer = {
        ...scriptedSummarizer(""),
        async summarize(request: SummaryRequest) {
          if (request.purpose === slow) await new Promise((resolve) => setTimeout(resolve, 5));
          const text = answerTo(request);
          return {
            text,
            stopReason: "stop" as const,
            model: model(request),
            source: sources[request.purpose]!,
          };
        },
      };
      const { source, model: first } = await compact(plan, { summarizer });
      expect({ source, first }).toEqual({ source: "one + two", first: { provider: "p", modelId: "one" } });
    }
  });

  test("keeps the previous summary when only the beginning of a turn is summarized", async () => {
    const path = new PathBuilder();
    path.user("first");
    const kept = path.user("the turn");
    path.compaction(kept, "The summary of old.\n\n<goal>\nfirst\n</goal>");
    path.answer("one");
    path.answer("two");
    path.answer(words(10));
    const plan = planned(path, { keepRecentTokens: 10 });
    expect(plan).toMatchObject({ historyIds: [], turnPrefixIds: ["e2", "e4", "e5"] });
    const summarizer = scriptedSummarizer(answerTo);
    const { prose, summary } = await compact(plan, { summarizer });
    expect(summarizer.requests.map(({ purpose }) => purpose)).toEqual(["turn-prefix"]);
    expect(prose).toMatch(/^The summary of old\.\n\n---\n\n# Beginning of the current turn\n\n## Original/);
    expect(summary.match(/<goal>/g)).toHaveLength(1);
  });
});

test("updates a previous summary that has the beginning of a turn, and does not add a second one", async () => {
  const path = new PathBuilder();
  path.user("first");
  const kept = path.user("the turn");
  path.compaction(
    kept,
    "The summary of old.\n\n---\n\n# Beginning of the current turn\n\n## Original Request\nfirst",
  );
  path.answer("one");
  path.answer(words(10));
  const plan = planned(path, { keepRecentTokens: 10 });
  expect(plan).toMatchObject({ historyIds: [], turnPrefixIds: ["e2", "e4"] });
  const summarizer = scriptedSummarizer(answerTo);
  const { prose } = await compact(plan, { summarizer });
  expect(summarizer.requests).toMatchObject([{ purpose: "history", previousSummary: plan.previousSummary }]);
  expect(prose).not.toContain("# Beginning of the current turn");
});

describe("an update", () => {
  test("sends the update prompt, the prose of the old summary and only the new messages", async () => {
    const path = new PathBuilder();
    path.user("first");
    const kept = path.user("second");
    path.compaction(kept, "Old prose.\n\n<goal>\nfirst\n</goal>\n\n<read-files>\na.ts\n</read-files>");
    path.answer("third");
    path.user(words(10));
    const summarizer = scriptedSummarizer(answerTo);
    const { summary } = await compact(planned(path, { keepRecentTokens: 10 }), { summarizer });
    const [request] = summarizer.requests;
    expect(request).toMatchObject({ previousSummary: "Old prose." });
    expect(request!.messages).toHaveLength(2);
    expect(request!.instructions).toContain("The transcript is what happened after the previous summary");
    expect(summary).toMatch(/<read-files>\na\.ts\n<\/read-files>$/);
  });

  test("may be as long as the old summary, even for few new messages", async () => {
    const path = new PathBuilder();
    path.user("first");
    const kept = path.user("second");
    path.compaction(kept, words(5_000));
    path.user(words(10));
    const summarizer = scriptedSummarizer(answerTo);
    await compact(planned(path, { keepRecentTokens: 10 }), { summarizer });
    expect(summarizer.requests[0]!.maxOutputTokens).toBeGreaterThanOrEqual(4_000);
  });
});

describe("a part that fails", () => {
  test("fails the compaction and aborts the other part, and all bills are summed", async () => {
    let aborted = false;
    const summarizer = scriptedSummarizer(async ({ purpose, signal }) => {
      if (purpose === "history") return failingAnswer("bad-request", billed(10));
      await new Promise<void>((resolve) => signal!.addEventListener("abort", () => resolve()));
      aborted = true;
      throw new EspalierError("aborted", "The summary was aborted.", { usage: billed(100) });
    });
    const failure = await compact(splitTurn(), { summarizer }).catch((error: unknown) => error);
    expect(aborted).toBe(true);
    expect(failure).toBeInstanceOf(EspalierError);
    expect(failure).toMatchObject({ code: "bad-request", usage: { input: 110, cost: { total: 110 } } });
  });

  test("has a bill that includes the finished part and earlier attempts", async () => {
    const summarizer = {
      ...scriptedSummarizer(""),
      async summarize(request: SummaryRequest) {
        if (request.purpose === "turn-prefix") {
          await new Promise((resolve) => setTimeout(resolve, 10));
          throw new TypeError("no connection");
        }
        return {
          text: answerTo(request),
          stopReason: "stop" as const,
          model: { provider: "p", modelId: "m" },
          usage: billed(5),
          attempts: [{ name: "a", code: "overloaded" as const, message: "", usage: billed(7) }],
        };
      },
    };
    const failure = await compact(splitTurn(), { summarizer }).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "failed", usage: { input: 12 } });
    expect((failure as EspalierError).message).toContain("no connection");
  });

  test("prevents the next part if the parts are requested one by one", async () => {
    const summarizer = scriptedSummarizer(failingAnswer("unauthorized"));
    await expect(compact(splitTurn(), { summarizer, concurrency: 1 })).rejects.toMatchObject({
      code: "unauthorized",
    });
    expect(summarizer.requests).toHaveLength(1);
  });

  test("ends with `aborted` and its bill after an external abort", async () => {
    const abort = new AbortController();
    const summarizer = scriptedSummarizer({ hangs: "until-aborted" });
    const running = compact(splitTurn(), { summarizer, signal: abort.signal });
    setTimeout(() => abort.abort(), 10);
    await expect(running).rejects.toMatchObject({ code: "aborted" });
  });
});

describe("content missing from a summary request", () => {
  test("is listed by entry: shortened results, images, dropped messages", async () => {
    const path = new PathBuilder();
    path.user("read");
    path.tool("read", { path: "a" }, words(2_000));
    path.user([{ type: "image", data: "", mimeType: "image/png" }] as never);
    path.user(words(10));
    const plan = planned(path, { keepRecentTokens: 10 });
    const summarizer = scriptedSummarizer(answerTo, { contextWindow: 20_000 });
    const { omitted } = await compact(plan, { summarizer });
    expect(omitted.history).toMatchObject({
      toolResultLimit: 2_000,
      shortened: [{ entryId: "e3", characters: 6_000 }],
      media: [{ entryId: "e4", count: 1 }],
      dropped: [],
    });
    expect(omitted).not.toHaveProperty("turnPrefix");
  });

  test("has no limit of results if only entries were dropped before the request", () => {
    expect(omittedEntries(undefined, [], ["e1"])).toMatchObject({ toolResultLimit: null, dropped: ["e1"] });
  });

  test("is an empty list if the request has everything", async () => {
    const summarizer = scriptedSummarizer(answerTo, { contextWindow: 20_000 });
    expect((await compact(splitTurn(), { summarizer })).omitted).toEqual({});
  });
});
