import { summarizeFitting } from "@espalier/summarizer";
import { textReply } from "@espalier/summarizer/testing";
import { describe, expect, it } from "vitest";
import { assistant, user } from "./build-messages.ts";
import { request } from "./build-request.ts";
import { start } from "./start-anthropic.ts";

const asked = request([user("hi"), assistant("hello")]);

describe("anthropicSummarizer counts tokens", () => {
  const countTokens = ({ messages, system }: Readonly<Record<string, unknown>>) =>
    Math.ceil(JSON.stringify([messages, system]).length / 4);
  const big = request(Array.from({ length: 40 }, () => user("word ".repeat(150))));

  it("on request", async () => {
    const { server, summarizer } = await start(
      textReply("S"),
      { parameters: { metadata: { user_id: "x" } } },
      { countTokens },
    );
    expect(await summarizer.countTokens(asked)).toBeGreaterThan(100);
    expect(server.counted[0]).toMatchObject({ problems: [] });
    expect(server.counted[0]!.body).not.toHaveProperty("metadata");
  });

  it("if the bound does not decide whether a request fits, and only then", async () => {
    const { server, summarizer } = await start(
      textReply("S"),
      { contextWindow: 12_000 },
      { countTokens, contextWindow: 12_000 },
    );
    await summarizeFitting(summarizer, asked);
    expect(server.counted).toHaveLength(0);
    const answer = await summarizeFitting(summarizer, big);
    expect(answer).toMatchObject({ calls: 1, omitted: { chunks: [] } });
    expect(server.counted).toHaveLength(1);
  });

  it("or works without counting, if it must not or the server cannot", async () => {
    for (const [options, more] of [
      [{ countTokens: false }, {}],
      [{}, { counts: false }],
    ] as const) {
      const { server, summarizer } = await start(
        textReply("S"),
        { contextWindow: 12_000, ...options },
        { countTokens, contextWindow: 12_000, ...more },
      );
      const answer = await summarizeFitting(summarizer, big);
      expect(answer.omitted.chunks.length).toBeGreaterThan(1);
      expect(server.counted).toHaveLength(0);
    }
  });
});
