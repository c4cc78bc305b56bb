import { anthropicModels, summarizeFitting, withFitting, withRetry } from "@espalier/summarizer";
import {
  brokenReply,
  errorReply,
  hangingReply,
  overloadedReply,
  type Reply,
  rateLimitedReply,
  textReply,
  tooLongReply,
  toolReply,
} from "@espalier/summarizer/testing";
import { describe, expect, it } from "vitest";
import { assistant, user } from "./build-messages.ts";
import { request } from "./build-request.ts";
import { start } from "./start-anthropic.ts";

/** As dense as text can be: a token a byte. */
const bytesOf = ({ messages, system }: Readonly<Record<string, unknown>>) =>
  Buffer.byteLength(JSON.stringify([messages, system]));

const asked = request([user("hi"), assistant("hello")]);

describe("anthropicSummarizer", () => {
  it("streams a standalone summary, with progress, usage and its price", async () => {
    const { server, summarizer } = await start(
      textReply("## Goal\nShip it", {
        usage: {
          input_tokens: 1_000,
          output_tokens: 200,
          cache_read_input_tokens: 500,
          cache_creation_input_tokens: 100,
        },
      }),
    );
    const progress: number[] = [];
    const answer = await summarizer.summarize({
      ...asked,
      onProgress: ({ outputTokens }) => progress.push(outputTokens),
    });
    expect(answer).toMatchObject({
      text: "## Goal\nShip it",
      stopReason: "stop",
      model: { provider: "anthropic", modelId: "claude-haiku-4-5" },
    });
    expect(answer.usage).toMatchObject({
      input: 1_000,
      output: 200,
      cacheRead: 500,
      cacheWrite: 100,
      totalTokens: 1_800,
    });
    expect(answer.usage!.cost!.total).toBeCloseTo((1_000 * 1 + 200 * 5 + 500 * 0.1 + 100 * 1.25) / 1e6, 12);
    expect(progress.at(-1)).toBe(4);
    const { body, problems } = server.requests[0]!;
    expect(problems).toEqual([]);
    expect(body).toMatchObject({ model: "claude-haiku-4-5", max_tokens: 1_000, stream: true });
    expect(JSON.stringify(body["messages"])).toContain("<transcript>");
    expect(JSON.stringify(body)).not.toContain("cache_control");
  });

  it.each<[string, Reply, object]>([
    ["a limit", textReply("half", { stopReason: "max_tokens" }), { stopReason: "length" }],
    [
      "a full window",
      textReply("half", { stopReason: "model_context_window_exceeded" }),
      { stopReason: "length" },
    ],
    ["a refusal", textReply("", { stopReason: "refusal" }), { stopReason: "refusal", text: "" }],
    ["a call", toolReply([{ name: "read", input: {} }]), { stopReason: "toolUse" }],
    ["something new", textReply("x", { stopReason: "pause_turn" }), { stopReason: "error" }],
  ])("reports that an answer ended with %s", async (_, reply, expected) => {
    const { summarizer } = await start(reply);
    expect(await summarizer.summarize(asked)).toMatchObject(expected);
  });

  it.each<[string, Reply]>([
    ["rate-limited", rateLimitedReply(2)],
    ["overloaded", overloadedReply()],
    ["overloaded", errorReply(500)],
    ["overloaded", errorReply(503)],
    ["overloaded", brokenReply("a text of some length", "overloaded")],
    ["connection", brokenReply("a text of some length", "cut")],
    ["connection", brokenReply("a text of some length", "end")],
    ["too-long", tooLongReply()],
    ["too-long", errorReply(413)],
    [
      "too-long",
      errorReply(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    ],
    ["unauthorized", errorReply(401)],
    ["unauthorized", errorReply(402)],
    ["unauthorized", errorReply(403)],
    ["bad-request", errorReply(400, "messages: unexpected role")],
    ["bad-request", errorReply(404)],
    ["timeout", errorReply(408)],
  ])("fails as %s and sends one request only", async (code, reply) => {
    const { server, summarizer } = await start(reply);
    await expect(summarizer.summarize(asked)).rejects.toMatchObject({ code, name: "EspalierError" });
    expect(server.requests).toHaveLength(1);
  });

  it("reports the bill of a broken stream, and the time to wait", async () => {
    const reply = {
      ...brokenReply("a text of some length", "overloaded"),
      usage: { input_tokens: 321, output_tokens: 50 },
    };
    const { summarizer } = await start((_, n) => (n === 1 ? reply : rateLimitedReply(7)));
    await expect(summarizer.summarize(asked)).rejects.toMatchObject({ usage: { input: 321 } });
    await expect(summarizer.summarize(asked)).rejects.toMatchObject({ retryAfterMs: 7_000 });
  });

  it("fails as connection without a server, as unauthorized with a wrong key, as timeout after its time", async () => {
    const { server, summarizer } = await start(hangingReply(), { timeoutMs: 50 });
    await expect(summarizer.summarize(asked)).rejects.toMatchObject({ code: "timeout" });
    await server.close();
    await expect(summarizer.summarize(asked)).rejects.toMatchObject({ code: "connection" });
    const wrongKey = await start(textReply("x"), { apiKey: "other" });
    await expect(wrongKey.summarizer.summarize(asked)).rejects.toMatchObject({ code: "unauthorized" });
  });

  it.each<[string, Reply]>([
    ["before the answer", hangingReply()],
    ["inside the answer", brokenReply("a text of some length", "hang")],
    ["between the deltas", textReply("word ".repeat(200), { deltaDelayMs: 1_000 })],
  ])("ends when it is aborted %s, with its bill", async (when, reply) => {
    const { server, summarizer } = await start(reply);
    const controller = new AbortController();
    const isBilled = when !== "before the answer";
    let isAnswering = false;
    const running = withRetry(summarizer).summarize({
      ...asked,
      signal: controller.signal,
      onProgress: () => {
        isAnswering = true;
      },
    });
    running.catch(() => undefined);
    while (isBilled ? !isAnswering : server.requests.length === 0)
      await new Promise((resolve) => setTimeout(resolve, 5));
    controller.abort();
    // Without the abort it would last longer than this test may.
    const failure: unknown = await running.catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "aborted",
      usage: isBilled ? { input: expect.any(Number) } : undefined,
    });
  });

  it("is retried by withRetry, and by no other code", async () => {
    const replies = [overloadedReply(), brokenReply("half of a text, and more", "cut"), textReply("S")];
    const { server, summarizer } = await start((_, n) => replies[n - 1]!);
    const answer = await withRetry(summarizer, { delayMs: () => 1 }).summarize(asked);
    expect(answer.text).toBe("S");
    expect(answer.attempts?.map(({ code }) => code)).toEqual(["overloaded", "connection"]);
    expect(server.requests).toHaveLength(3);
  });

  describe("a request for output tokens", () => {
    it.each(Object.entries(anthropicModels))(
      "has at most the maximum of %s",
      async (model, { maxOutputTokens, contextWindow, thinksByDefault }) => {
        const { server, summarizer } = await start(textReply("S"), { model });
        expect(summarizer).toMatchObject({ maxOutputTokens, contextWindow });
        await summarizer.summarize({ ...asked, maxOutputTokens: 2_000 });
        await summarizer.summarize({ ...asked, maxOutputTokens: 900_000 });
        const limits = server.requests.map(({ body }) => body["max_tokens"]);
        expect(limits).toEqual([thinksByDefault ? 18_000 : 2_000, maxOutputTokens]);
      },
    );

    it("has at most the rest of the window after the prompt", async () => {
      const { server, summarizer } = await start(
        textReply("S"),
        { contextWindow: 4_000 },
        { contextWindow: 4_000, countTokens: bytesOf },
      );
      await summarizer.summarize({ ...asked, maxOutputTokens: 3_900 });
      expect(server.requests[0]!.body["max_tokens"]).toBeLessThan(3_400);
    });

    it("has room for the requested thinking, for which a history is split further", async () => {
      const words = request(
        Array.from({ length: 60 }, (_, index) => user(`${index} ${"word ".repeat(200)}`)),
      );
      const { server, summarizer } = await start(
        textReply("S"),
        { contextWindow: 16_000, parameters: { thinking: { type: "enabled", budget_tokens: 4_096 } } },
        { contextWindow: 16_000, countTokens: bytesOf },
      );
      expect(await summarizeFitting(summarizer, words)).toMatchObject({ text: "S" });
      expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
    });

    it("is not sent if it cannot fit", async () => {
      const { server, summarizer } = await start(textReply("S"), { contextWindow: 900, countTokens: false });
      await expect(summarizer.summarize(asked)).rejects.toMatchObject({ code: "too-long" });
      expect(server.requests).toEqual([]);
    });
  });

  it("makes a summary of ten times the window against a server that refuses too long requests", async () => {
    const words = request(
      Array.from({ length: 100 }, (_, index) => user(`${index} ${"word ".repeat(400)}`)),
      { sections: ["Goal"] },
    );
    const { server, summarizer } = await start(
      textReply("## Goal\nS"),
      { contextWindow: 8_000 },
      { contextWindow: 8_000 },
    );
    const answer = await withFitting(withRetry(summarizer)).summarize(words);
    expect(answer.text).toBe("## Goal\nS");
    expect(answer.omitted!.chunks.length).toBeGreaterThan(3);
    expect(server.requests.every(({ problems }) => problems.length === 0)).toBe(true);
    expect(answer.attempts).toBeUndefined();
  });
});
