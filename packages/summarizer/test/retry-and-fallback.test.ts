import { EspalierError } from "@espalier/jsonl-stream";
import {
  chainOf,
  exponentialDelay,
  extractiveSummarizer,
  type RetryOptions,
  type Summarizer,
  withFallback,
  withFallbackFor,
  withFitting,
  withRetry,
} from "@espalier/summarizer";
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
import { describe, expect, it } from "vitest";
import { usage, user } from "./build-messages.ts";
import { request } from "./build-request.ts";

/** A summarizer with retries that waits nothing and says how long it would have waited. */
function retrying(script: Script, options: RetryOptions = {}) {
  const scripted = scriptedSummarizer(script);
  const waits: number[] = [];
  const sleep = async (milliseconds: number) => void waits.push(milliseconds);
  return {
    scripted,
    waits,
    summarizer: withRetry(scripted, { sleep, delayMs: (failure) => failure * 10, ...options }),
  };
}

const asked = request([user("hi")], { sections: ["Goal"] });
const good = "## Goal\nShip";

describe("withRetry", () => {
  it("retries temporary failures, and reports their cost", async () => {
    const { summarizer, waits } = retrying([
      failingAnswer("overloaded", usage(3, 0)),
      failingAnswer("connection"),
      { text: good, usage: usage(5, 5) },
    ]);
    const answer = await summarizer.summarize(asked);
    expect(answer.text).toBe(good);
    expect(waits).toEqual([10, 20]);
    expect(answer.usage).toEqual(usage(5, 5));
    expect(answer.attempts).toEqual([
      { name: "scripted", code: "overloaded", message: "Scripted: overloaded.", usage: usage(3, 0) },
      { name: "scripted", code: "connection", message: "Scripted: connection." },
    ]);
  });

  it("fails after the last attempt with the whole bill", async () => {
    const { summarizer, scripted } = retrying(failingAnswer("rate-limited", usage(2, 0)));
    await expect(summarizer.summarize(asked)).rejects.toMatchObject({
      code: "rate-limited",
      usage: { input: 6 },
      attempts: { length: 3 },
    });
    expect(scripted.requests).toHaveLength(3);
  });

  it.each(["too-long", "unauthorized", "bad-request", "failed"] as const)(
    "does not retry after %s",
    async (code) => {
      const { summarizer, scripted } = retrying(failingAnswer(code));
      await expect(summarizer.summarize(asked)).rejects.toMatchObject({ code });
      expect(scripted.requests).toHaveLength(1);
    },
  );

  it.each([
    ["refused", refusingAnswer(), "refusal"],
    ["tool-call", callingAnswer(), "No tool"],
    ["empty", emptyAnswer(), "empty"],
    ["cut-off", cutOffAnswer(), "too long"],
  ])("asks once more with stricter instructions after an answer that is %s", async (code, bad, sentence) => {
    const { summarizer, scripted, waits } = retrying([bad, good]);
    const answer = await summarizer.summarize(asked);
    expect(answer.text).toBe(good);
    expect(answer.attempts?.map((attempt) => attempt.code)).toEqual([code]);
    const [first, second] = scripted.requests;
    expect(second!.instructions.startsWith(first!.instructions)).toBe(true);
    expect(second!.instructions).toContain(sentence);
    expect(waits).toEqual([]);
  });

  it("asks so only once", async () => {
    const { summarizer, scripted } = retrying(emptyAnswer(usage(1, 0)));
    await expect(summarizer.summarize(asked)).rejects.toMatchObject({ code: "empty", usage: { input: 2 } });
    expect(scripted.requests).toHaveLength(2);
    const lenient = retrying(emptyAnswer(), { stricter: false });
    await expect(lenient.summarizer.summarize(asked)).rejects.toMatchObject({ code: "empty" });
    expect(lenient.scripted.requests).toHaveLength(1);
  });

  it("waits as long as the provider requests, and not at all if that is too long", async () => {
    const wait = (retryAfterMs: number) => ({
      error: new EspalierError("rate-limited", "Slow down.", { retryAfterMs }),
    });
    const patient = retrying([wait(7_000), good]);
    await patient.summarizer.summarize(asked);
    expect(patient.waits).toEqual([7_000]);
    const hasty = retrying([wait(3_600_000), good]);
    await expect(hasty.summarizer.summarize(asked)).rejects.toMatchObject({
      code: "rate-limited",
      retryAfterMs: 3_600_000,
    });
    expect(hasty.waits).toEqual([]);
  });

  it("ends one attempt that takes too long, and all attempts after an abort", async () => {
    const slow = retrying([hangingAnswer("for-ever"), good], { timeoutMs: 20 });
    expect((await slow.summarizer.summarize(asked)).attempts).toMatchObject([{ code: "timeout" }]);
    const unhurried = retrying([{ text: good, delayMs: 20 }], { timeoutMs: Number.POSITIVE_INFINITY });
    expect((await unhurried.summarizer.summarize(asked)).attempts).toBeUndefined();

    const controller = new AbortController();
    const waiting = withRetry(scriptedSummarizer(failingAnswer("overloaded", usage(4, 0))), {
      delayMs: () => 60_000,
    });
    const running = waiting.summarize({ ...asked, signal: controller.signal });
    setTimeout(() => controller.abort(), 10);
    await expect(running).rejects.toMatchObject({ code: "aborted", usage: { input: 4 } });
  });

  it("treats a synchronous error like any other failure", async () => {
    const hasty: Summarizer = {
      ...scriptedSummarizer(good, { name: "hasty" }),
      summarize: () => {
        throw new TypeError("no key");
      },
    };
    await expect(withRetry(hasty).summarize(asked)).rejects.toMatchObject({
      code: "failed",
      attempts: [{ name: "hasty", message: 'The summarizer "hasty" failed: no key' }],
    });
  });

  it("keeps the bill of an attempt until it was aborted", async () => {
    const controller = new AbortController();
    const summarizer = withRetry({
      ...scriptedSummarizer(""),
      summarize: ({ signal }) =>
        new Promise((_, reject) => {
          signal!.addEventListener("abort", () =>
            reject(new EspalierError("aborted", "Aborted.", { usage: usage(8, 2) })),
          );
        }),
    });
    const running = summarizer.summarize({ ...asked, signal: controller.signal });
    controller.abort();
    await expect(running).rejects.toMatchObject({ code: "aborted", usage: { input: 8, output: 2 } });
  });

  it("doubles its waits up to half a minute, less a random half", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (failure, random) => {
          const full = Math.min(30_000, 1_000 * 2 ** (failure - 1));
          const delay = exponentialDelay(failure, () => random);
          expect(delay).toBeGreaterThanOrEqual(full / 2 - 1);
          expect(delay).toBeLessThanOrEqual(full);
        },
      ),
    );
  });
});

describe("withFallback", () => {
  it("uses the first valid answer, and names its summarizer and the failures of the others", async () => {
    const first = scriptedSummarizer(failingAnswer("unauthorized", usage(1, 0)), { name: "first" });
    const second = scriptedSummarizer({ text: " ", usage: usage(2, 0) }, { name: "second" });
    const third = scriptedSummarizer(good, { name: "third" });
    const answer = await withFallback(first, second, third).summarize(asked);
    expect(answer).toMatchObject({ text: good, source: "third" });
    expect(answer.attempts).toMatchObject([
      { name: "first", code: "unauthorized", usage: usage(1, 0) },
      { name: "second", code: "empty", usage: usage(2, 0) },
    ]);
  });

  it("names the first if it answers, and calls no other", async () => {
    const second = scriptedSummarizer(good);
    const answer = await withFallback(scriptedSummarizer(good, { name: "first" }), second).summarize(asked);
    expect(answer.source).toBe("first");
    expect(answer.attempts).toBeUndefined();
    expect(second.requests).toEqual([]);
  });

  it("fails with the last error and the whole bill", async () => {
    const chain = withFallback(
      scriptedSummarizer(failingAnswer("failed", usage(1, 0))),
      scriptedSummarizer(emptyAnswer(usage(2, 0))),
    );
    await expect(chain.summarize(asked)).rejects.toMatchObject({
      code: "empty",
      usage: { input: 3 },
      attempts: { length: 2 },
    });
  });

  it("never continues after an abort, even if the first ignores it", async () => {
    for (const how of ["until-aborted", "for-ever"] as const) {
      const controller = new AbortController();
      const second = scriptedSummarizer(good);
      const running = withFallback(scriptedSummarizer(hangingAnswer(how)), second).summarize({
        ...asked,
        signal: controller.signal,
      });
      controller.abort();
      await expect(running).rejects.toMatchObject({ code: "aborted" });
      expect(second.requests).toEqual([]);
    }
  });

  it("can be limited to requests that are too long", async () => {
    const extractive = scriptedSummarizer(good, { name: "extractive" });
    const chain = (code: "too-long" | "overloaded") =>
      withFallbackFor(["too-long"], scriptedSummarizer(failingAnswer(code)), extractive);
    expect(await chain("too-long").summarize(asked)).toMatchObject({ source: "extractive" });
    await expect(chain("overloaded").summarize(asked)).rejects.toMatchObject({ code: "overloaded" });
  });

  it("counts every failed call once through all wrappers", async () => {
    const script: Script = (_, n) =>
      n < 3 ? failingAnswer("overloaded", usage(10 ** n, 0)) : emptyAnswer(usage(1, 0));
    const inner = withFitting(withRetry(scriptedSummarizer(script), { sleep: async () => undefined }));
    const answer = await withFallback(inner, scriptedSummarizer(good, { name: "extractive" })).summarize(
      asked,
    );
    expect(answer.attempts!.map((attempt) => attempt.usage!.input)).toEqual([10, 100, 1, 1]);
  });
});

describe("chainOf", () => {
  const goal = { ...asked, transcript: "<transcript>\nuser: hi\n</transcript>" };
  const repeated = (summarizer: Summarizer) => withRetry(summarizer, { sleep: async () => undefined });

  it("retries, fits the size, and uses the extractive one only for too long requests", async () => {
    const passing = scriptedSummarizer((_, n) => (n === 1 ? failingAnswer("overloaded") : { text: good }));
    expect(await chainOf(passing, { repeated }).summarize(goal)).toMatchObject({
      text: good,
      attempts: [{ code: "overloaded" }],
    });
    const tooLong = scriptedSummarizer(() => failingAnswer("too-long"));
    expect(await chainOf(tooLong, { repeated }).summarize(goal)).toMatchObject({ source: "extractive" });
    const refused = scriptedSummarizer(() => failingAnswer("unauthorized"));
    await expect(chainOf(refused, { repeated }).summarize(goal)).rejects.toMatchObject({
      code: "unauthorized",
    });
    expect(await chainOf(refused, { repeated, fallback: true }).summarize(goal)).toMatchObject({
      source: "extractive",
    });
  });

  it("names its model, and does not change the extractive one", () => {
    const model = { provider: "p", modelId: "m" };
    expect(chainOf({ ...scriptedSummarizer(() => ({ text: good })), model }).model).toEqual(model);
    const extractive = extractiveSummarizer();
    expect(chainOf(extractive)).toBe(extractive);
  });
});
