import type { ContextMessage } from "@espalier/session-tree";
import {
  type FittedRequest,
  fitRequest,
  renderMessage,
  type SummaryRequest,
  summaryPrompt,
  upperBoundEstimator,
} from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { assistant, picture, result, user } from "./build-messages.ts";
import { request } from "./build-request.ts";

/** The most tokens that a request and its answer can take. */
function mostTokens(asked: SummaryRequest): number {
  const { system, user: text } = summaryPrompt(asked);
  return upperBoundEstimator.text(system) + upperBoundEstimator.text(text) + asked.maxOutputTokens;
}

/** That every request fits, and that every message is shown whole, shortened, or dropped: exactly one of them. */
function expectFit(messages: readonly ContextMessage[], fitted: FittedRequest, contextWindow: number): void {
  const { requests, omitted } = fitted;
  for (const asked of requests) expect(mostTokens(asked)).toBeLessThanOrEqual(contextWindow);
  const transcripts = requests.map(({ transcript }) => transcript).join("\n");
  const shortened = new Map(omitted.shortened.map(({ message, characters }) => [message, characters]));
  const dropped = new Set(omitted.dropped);
  for (const [index, message] of messages.entries()) {
    const whole = renderMessage(message, { toolResultLimit: Infinity, textLimit: Infinity });
    if (whole.text === "") expect([shortened.has(index), dropped.has(index)]).toEqual([false, false]);
    else if (dropped.has(index)) expect(shortened.has(index)).toBe(false);
    else if (!shortened.has(index)) expect(transcripts).toContain(whole.text);
    else expect(shortened.get(index)).toBeGreaterThan(0);
  }
  const { chunks } = omitted;
  expect(requests.length).toBe(Math.max(1, chunks.length));
  for (const [at, { first, last }] of chunks.entries()) {
    expect(first).toBe(at === 0 ? first : chunks[at - 1]!.last + 1);
    expect(last).toBeGreaterThanOrEqual(first);
  }
  if (chunks.length > 0) expect(chunks.at(-1)!.last).toBe(messages.length - 1);
}

const calls = (count: number, size: number): ContextMessage[] =>
  Array.from({ length: count }, (_, index) => [
    assistant(`step ${index}`, [{ id: `${index}`, name: "bash", arguments: { command: "x" } }]),
    result(`${index}`, "z".repeat(size)),
  ]).flat();

describe("fitRequest", () => {
  it("does not change a request that fits, and lists content that its transcript already left out", async () => {
    const messages = [user("hi"), result("1", "r".repeat(2_500)), picture()];
    const asked = request(messages);
    const { requests, omitted } = await fitRequest(asked, { contextWindow: 20_000 });
    expect(requests).toEqual([asked]);
    expect(omitted).toEqual({
      toolResultLimit: 2_000,
      shortened: [{ message: 1, characters: 500 }],
      media: [{ message: 2, count: 1 }],
      dropped: [],
      chunks: [],
      summaryCharacters: 0,
    });
  });

  it("shortens tool results, to 500 and then to 120 characters, before it splits", async () => {
    const messages = calls(20, 3_000);
    const at = (contextWindow: number) => fitRequest(request(messages), { contextWindow });
    expect((await at(60_000)).omitted.toolResultLimit).toBe(2_000);
    expect((await at(20_000)).omitted).toMatchObject({ toolResultLimit: 500, chunks: [] });
    expect((await at(9_000)).omitted).toMatchObject({ toolResultLimit: 120, chunks: [] });
    const split = await at(5_000);
    expect(split.omitted.chunks.length).toBeGreaterThan(1);
    expectFit(messages, split, 5_000);
  });

  it("requests notes on each part, with the user's wishes and without the previous summary", async () => {
    const messages = calls(30, 1_000);
    const asked = request(messages, {
      sections: ["Goal"],
      previousSummary: "OLD",
      customInstructions: "Mind the tests",
    });
    const { requests } = await fitRequest(asked, { contextWindow: 6_000 });
    for (const [index, part] of requests.entries()) {
      expect(part).toMatchObject({ purpose: "chunk", sections: [], customInstructions: "Mind the tests" });
      expect(part.previousSummary).toBeUndefined();
      expect(part.instructions).toContain(`part ${index + 1} of ${requests.length}`);
    }
  });

  it("keeps a result in the part of its call, whatever the window", async () => {
    for (let contextWindow = 5_000; contextWindow <= 9_000; contextWindow += 100) {
      const { requests } = await fitRequest(request(calls(60, 1_000)), { contextWindow });
      for (const { messages } of requests) expect(messages[0]!.role).toBe("assistant");
    }
  });

  it("parts a call from its results only where they do not fit into one part", async () => {
    const many = [
      assistant("all at once", [{ id: "a", name: "bash", arguments: { command: "x" } }]),
      ...Array.from({ length: 60 }, () => result("a", "z".repeat(1_000))),
    ];
    const fitted = await fitRequest(request(many), { contextWindow: 6_000 });
    expectFit(many, fitted, 6_000);
    expect(fitted.omitted.dropped).toEqual([]);
  });

  it("drops the oldest messages if there would be too many parts, and says so at their position", async () => {
    const messages = Array.from({ length: 100 }, (_, index) => user(`message ${index} ${"w".repeat(900)}`));
    const fitted = await fitRequest(request(messages), { contextWindow: 6_000, maxChunks: 3 });
    expect(fitted.requests).toHaveLength(3);
    const { dropped } = fitted.omitted;
    expect(dropped).toEqual(Array.from({ length: dropped.length }, (_, index) => index));
    expect(fitted.requests[0]!.transcript).toContain(`<note>${dropped.length} messages are not shown</note>`);
    expect(fitted.requests.at(-1)!.transcript).toContain("message 99");
    expectFit(messages, fitted, 6_000);
  });

  it("cuts a message larger than a part, and keeps both of its ends", async () => {
    const messages = [user(`BEGIN${"m".repeat(5_000_000)}END`), assistant("done")];
    const fitted = await fitRequest(request(messages), { contextWindow: 30_000 });
    expect(fitted.requests[0]!.transcript).toMatch(/BEGINm+\n\[… \d+ characters left out\]\nm+END/);
    expectFit(messages, fitted, 30_000);
  });

  it("cuts a previous summary and wishes that exceed their share", async () => {
    const asked = request([user("hi")], {
      previousSummary: "s".repeat(90_000),
      customInstructions: "c".repeat(90_000),
    });
    const { requests, omitted } = await fitRequest(asked, { contextWindow: 40_000 });
    expect(requests[0]!.previousSummary).toMatch(/^s+\n\[… \d+ characters left out\]\ns+$/);
    const kept = `${requests[0]!.previousSummary}${requests[0]!.customInstructions}`.replace(
      /[^sc]/g,
      "",
    ).length;
    expect(omitted.summaryCharacters).toBeGreaterThan(180_000 - kept - 100);
    expect(mostTokens(requests[0]!)).toBeLessThanOrEqual(40_000);
  });

  it("reports a window that is too small for the instructions alone", async () => {
    await expect(fitRequest(request([user("hi")]), { contextWindow: 900 })).rejects.toMatchObject({
      code: "too-long",
      message: expect.stringContaining("larger window"),
    });
  });

  it("fits any history into any window that has room for the instructions", async () => {
    const text = fc.oneof(
      fc.string({ maxLength: 200 }),
      fc
        .tuple(fc.constantFrom("a", "<", "漢", "👍", "&lt;"), fc.integer({ min: 1, max: 9_000 }))
        .map(([unit, count]) => unit.repeat(count)),
    );
    const message: fc.Arbitrary<ContextMessage> = fc.oneof(
      text.map(user),
      text.map((said) => assistant(said)),
      fc.array(text, { maxLength: 4 }).map((values) =>
        assistant(
          "",
          values.map((value, index) => ({ id: `${index}`, name: "write", arguments: { value } })),
        ),
      ),
      text.map((said) => result("1", said)),
      fc.constant(picture()),
      fc.constant<ContextMessage>({ role: "system", content: "never shown", timestamp: 1 }),
    );
    const options = fc.record({
      contextWindow: fc.integer({ min: 4_000, max: 40_000 }),
      maxChunks: fc.integer({ min: 1, max: 5 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(message, { maxLength: 25 }), options, async (messages, fit) => {
        expectFit(messages, await fitRequest(request(messages), fit), fit.contextWindow);
      }),
      { numRuns: 150 },
    );
  });
});
