import type { ContextMessage } from "@espalier/session-tree";
import {
  chainOf,
  type SummaryRequest,
  summarizeFitting,
  summaryPrompt,
  upperBoundEstimator,
  withFitting,
  withRetry,
} from "@espalier/summarizer";
import {
  cutOffAnswer,
  failingAnswer,
  hangingAnswer,
  largerAnswer,
  type Script,
  scriptedSummarizer,
} from "@espalier/summarizer/testing";
import { describe, expect, it } from "vitest";
import { assistant, picture, result, usage, user } from "./build-messages.ts";
import { request } from "./build-request.ts";

const words = (count: number) => "lorem ipsum ".repeat(count);
const long = (count: number): ContextMessage[] =>
  Array.from({ length: count }, (_, index) => user(`${index}: ${words(80)}`));

/** The largest prompt with its answer, in bytes. */
const bytes = (asked: SummaryRequest) => {
  const { system, user: text } = summaryPrompt(asked);
  return upperBoundEstimator.text(system) + upperBoundEstimator.text(text);
};

/** A summarizer with a hard limit: it refuses what is larger in bytes. */
const strict = (script: Script, contextWindow = 8_000) =>
  scriptedSummarizer(script, { contextWindow, tokens: bytes });

describe("summarizeFitting", () => {
  it("sends one request if it fits", async () => {
    const summarizer = strict("S");
    const asked = request([user("hi")]);
    const answer = await summarizeFitting(summarizer, asked);
    expect(answer).toMatchObject({ text: "S", calls: 1, omitted: { chunks: [] } });
    expect(summarizer.requests.map(({ purpose, transcript }) => [purpose, transcript])).toEqual([
      ["history", asked.transcript],
    ]);
  });

  it("sends one request if the exact size fits, also when failures are retried", async () => {
    const summarizer = scriptedSummarizer("S", {
      contextWindow: 20_000,
      tokens: () => 1,
      counts: () => 5_000,
    });
    const answer = await withFitting(withRetry(summarizer)).summarize(request(long(25)));
    expect(answer).toMatchObject({ text: "S", calls: 1, omitted: { chunks: [] } });
  });

  it("combines notes on the parts, in order, with the instructions and the previous summary", async () => {
    const script: Script = ({ purpose }, n) => (purpose === "chunk" ? `notes ${n}` : `from ${purpose}`);
    const summarizer = strict(script);
    const asked = request(long(25), { sections: ["Goal"], previousSummary: "OLD" });
    const answer = await summarizeFitting(summarizer, asked, { concurrency: 1 });
    const last = summarizer.requests.at(-1)!;
    expect(answer.text).toBe("from combine");
    expect(last).toMatchObject({ purpose: "combine", sections: ["Goal"], previousSummary: "OLD" });
    expect(last.instructions).toContain(asked.instructions);
    const order = [...last.transcript.matchAll(/notes (\d+)/g)].map(([, n]) => Number(n));
    expect(order).toEqual(order.map((_, index) => index + 1));
    expect(answer.omitted.chunks).toHaveLength(order.length);
    expect(answer.calls).toBe(order.length + 1);
  });

  it("has at most the given number of requests open, and one after the other with 1", async () => {
    for (const [concurrency, most] of [
      [undefined, 2],
      [3, 3],
      [1, 1],
    ] as const) {
      const summarizer = strict(() => ({ text: "n", delayMs: 5 }));
      await summarizeFitting(summarizer, request(long(40)), concurrency === undefined ? {} : { concurrency });
      expect(summarizer.maxInFlight).toBe(most);
    }
  });

  it("combines notes again and again until they fit", async () => {
    const script: Script = ({ purpose, sections }) =>
      purpose === "chunk" || sections.length === 0 ? words(100) : "## Goal\nx";
    const summarizer = strict(script);
    const answer = await summarizeFitting(summarizer, request(long(120), { sections: ["Goal"] }));
    const combines = summarizer.requests.filter(({ purpose }) => purpose === "combine");
    expect(combines.length).toBeGreaterThan(2);
    expect(answer.text).toBe("## Goal\nx");
  });

  it("ends, within the limit, even if every answer is larger than its input", async () => {
    const summarizer = strict((asked) => largerAnswer(asked));
    const answer = await summarizeFitting(summarizer, request(long(60)));
    expect(answer.omitted.summaryCharacters).toBeGreaterThan(0);
    expect(summarizer.requests.every((asked) => bytes(asked) + asked.maxOutputTokens <= 8_000)).toBe(true);
  });

  it.each<[string, () => ContextMessage[]]>([
    ["ten times the window", () => long(90)],
    ["one result of five million characters", () => [user("go"), result("1", "x".repeat(5_000_000))]],
    ["one message of five million characters", () => [user("é".repeat(5_000_000)), assistant("ok")]],
    ["five hundred pictures", () => Array.from({ length: 500 }, () => picture("QUJD".repeat(3_000)))],
    [
      "forty calls with 80,000 characters each",
      () =>
        Array.from({ length: 40 }, (_, i) => [
          assistant("", [{ id: `${i}`, name: "bash", arguments: { command: "cat" } }]),
          result(`${i}`, "y".repeat(80_000)),
        ]).flat(),
    ],
    ["nothing at all", () => []],
  ])("makes a summary of %s", async (_, messages) => {
    const summarizer = strict("S", 8_000);
    const answer = await summarizeFitting(summarizer, request(messages()));
    expect(answer.text).toBe("S");
    expect(summarizer.events.filter((event) => event.startsWith("failure"))).toEqual([]);
  });

  it("accepts a provider's report of a smaller window", async () => {
    const summarizer = scriptedSummarizer("S", {
      contextWindow: 200_000,
      tokens: (asked) => (bytes(asked) > 9_000 ? Infinity : 0),
    });
    const answer = await summarizeFitting(summarizer, request(long(30)));
    expect(answer.text).toBe("S");
    expect(answer.attempts?.map(({ code }) => code)).toContain("too-long");
  });

  it("fails with the provider's message if nothing is small enough", async () => {
    const summarizer = scriptedSummarizer("S", { contextWindow: 100_000, tokens: () => Infinity });
    await expect(summarizeFitting(summarizer, request(long(30)))).rejects.toMatchObject({ code: "too-long" });
  });

  it("requests the exact size if the bound does not decide, and does not split a request that fits", async () => {
    const summarizer = scriptedSummarizer("S", {
      contextWindow: 10_000,
      counts: (asked) => bytes(asked) / 4,
      tokens: (asked) => bytes(asked) / 4,
    });
    const answer = await summarizeFitting(summarizer, request(long(20)));
    expect(answer).toMatchObject({ calls: 1, omitted: { toolResultLimit: 2_000, chunks: [] } });
  });

  it("makes fewer parts of text that is known to be less dense than the bound", async () => {
    const tokens = (asked: SummaryRequest) => bytes(asked) / 4;
    const counting = scriptedSummarizer("S", { contextWindow: 8_000, counts: tokens, tokens });
    const bounding = scriptedSummarizer("S", { contextWindow: 8_000, tokens });
    const few = await summarizeFitting(counting, request(long(90)));
    const many = await summarizeFitting(bounding, request(long(90)));
    expect(few.omitted.chunks.length).toBeLessThan(many.omitted.chunks.length / 2);
    expect(counting.events.some((event) => event.startsWith("failure"))).toBe(false);
  });

  it("leaves a message that cannot be made small enough to the extractive one, and omits it if there are others", async () => {
    const calls = Array.from({ length: 400 }, (_, at) => ({ id: `${at}`, name: "read", arguments: { at } }));
    const many = assistant("", calls);
    await expect(summarizeFitting(strict("S"), request([many]))).rejects.toMatchObject({ code: "too-long" });
    expect(await chainOf(strict("S")).summarize(request([many]))).toMatchObject({ source: "extractive" });
    const strictly = strict("S");
    const beside = await summarizeFitting(strictly, request([user("go"), many]));
    expect(beside).toMatchObject({ text: "S", omitted: { dropped: [1] } });
    expect(strictly.requests[0]!.transcript).toContain("<note>1 message is not shown</note>");
  });

  it("sends nothing if notes on the parts could not be combined afterwards", async () => {
    const summarizer = strict("S", 6_000);
    const asked = request(long(40), { instructions: "i".repeat(4_700) });
    await expect(summarizeFitting(summarizer, asked)).rejects.toMatchObject({ code: "too-long" });
    expect(summarizer.requests).toEqual([]);
  });

  it("adds up the usage of all calls, and the progress", async () => {
    const seen: number[] = [];
    const summarizer = strict(() => ({ text: "four", usage: usage(10, 1) }));
    const answer = await summarizeFitting(
      summarizer,
      request(long(25), { onProgress: ({ outputTokens }) => seen.push(outputTokens) }),
    );
    expect(answer.usage).toMatchObject({ input: 10 * answer.calls, output: answer.calls });
    expect(seen).toEqual(seen.map((_, index) => index + 1));
  });

  it("fails when a part fails, aborts the others, and reports the whole bill", async () => {
    const script: Script = (_, n) =>
      n === 2
        ? { ...failingAnswer("unauthorized", usage(5, 0)), delayMs: 10 }
        : n === 1
          ? { text: "n", usage: usage(7, 1) }
          : hangingAnswer();
    const summarizer = strict(script);
    const failure = await summarizeFitting(summarizer, request(long(40))).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "unauthorized", usage: { input: 12, output: 1 } });
    expect(summarizer.requests).toHaveLength(3);
  });

  it("does not base a summary on notes that were cut off", async () => {
    const script: Script = ({ purpose }) => (purpose === "chunk" ? cutOffAnswer("half", usage(3, 3)) : "S");
    await expect(
      summarizeFitting(strict(script), request(long(25)), { concurrency: 1 }),
    ).rejects.toMatchObject({
      code: "cut-off",
      usage: { input: 3, output: 3 },
    });
  });

  it("ends after an abort, even if the summarizer ignores it", async () => {
    for (const how of ["until-aborted", "for-ever"] as const) {
      const controller = new AbortController();
      const running = summarizeFitting(
        strict(hangingAnswer(how)),
        request(long(40), { signal: controller.signal }),
      );
      setTimeout(() => controller.abort(), 10);
      await expect(running).rejects.toMatchObject({ code: "aborted" });
    }
  });

  it("as withFitting is a summarizer without a window limit", async () => {
    const fitting = withFitting(strict("S"));
    expect(fitting).toMatchObject({ name: "scripted", contextWindow: Number.POSITIVE_INFINITY });
    expect(await fitting.summarize(request(long(60)))).toMatchObject({ text: "S" });
  });
});
