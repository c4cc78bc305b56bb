import { type AnthropicSummarizerOptions, type LastRequest, summarizeFitting } from "@espalier/summarizer";
import { textReply } from "@espalier/summarizer/testing";
import { describe, expect, it } from "vitest";
import { assistant, picture, result, user } from "./build-messages.ts";
import { request } from "./build-request.ts";
import { start } from "./start-anthropic.ts";

const asked = request([user("hi"), assistant("hello")]);

/** A request that a session sent, with a marker for the cache. */
const sent = (): LastRequest["body"] => ({
  model: "claude-haiku-4-5",
  max_tokens: 8_192,
  system: [{ type: "text", text: "You are an agent." }],
  tools: [{ name: "read", input_schema: { type: "object" } }],
  messages: [
    { role: "user", content: "hi" },
    {
      role: "assistant",
      content: [
        { type: "text", text: "hello" },
        { type: "tool_use", id: "t1", name: "read", input: { b: 1, a: 2 } },
      ],
    },
    {
      role: "user",
      content: [
        {
          type: "tool_result",
          tool_use_id: "t1",
          content: "text ".repeat(200),
          cache_control: { type: "ephemeral" },
        },
      ],
    },
  ],
});

describe("anthropicSummarizer extends the last request", () => {
  const extending = (
    more: Partial<AnthropicSummarizerOptions> = {},
    last: () => LastRequest | undefined = () => ({ body: sent() }),
  ) => start(textReply("S"), { lastRequest: last, ...more });

  it("byte for byte, so that the cache serves it", async () => {
    const { server, summarizer } = await extending();
    const client = await fetch(`${server.url}/v1/messages`, {
      method: "POST",
      headers: { authorization: "Bearer key" },
      body: JSON.stringify(sent()),
    });
    expect(client.status).toBe(200);
    const answer = await summarizer.summarize({
      ...asked,
      previousSummary: "OLD",
      customInstructions: "Mind the tests",
    });
    const [first, second] = server.requests.map(({ body }) => body);
    expect(JSON.stringify(second!["system"])).toBe(JSON.stringify(first!["system"]));
    expect(JSON.stringify(second!["tools"])).toBe(JSON.stringify(first!["tools"]));
    const prefix = JSON.stringify(first!["messages"]).slice(0, -1);
    expect(JSON.stringify(second!["messages"]).startsWith(`${prefix},`)).toBe(true);
    expect(server.requests[1]!.raw.includes(prefix)).toBe(true);
    expect((second!["messages"] as unknown[]).length).toBe(4);
    expect(answer.usage!.cacheRead).toBeGreaterThan(200);
    const instruction = JSON.stringify((second!["messages"] as unknown[]).at(-1));
    for (const part of [asked.instructions, "OLD", "Mind the tests", "hello"])
      expect(instruction).toContain(part);
  });

  it("unless that forces a call or JSON", async () => {
    const forced: object[] = [
      { tool_choice: { type: "any" } },
      { tool_choice: { type: "tool", name: "read" } },
      { output_format: { type: "json_schema", schema: {} } },
      { output_config: { format: { type: "json_schema", schema: {} } } },
    ];
    for (const [count, fields] of [
      ...forced.map((each) => [1, each] as const),
      [4, { tool_choice: { type: "auto" }, output_config: { effort: "low" } }] as const,
    ]) {
      const { server, summarizer } = await extending({}, () => ({ body: { ...sent(), ...fields } }));
      await summarizer.summarize(asked);
      expect(server.requests[0]!.body["messages"], JSON.stringify(fields)).toHaveLength(count);
    }
  });

  it("without its stop sequences, which could cut the summary", async () => {
    const body = { ...sent(), stop_sequences: ["## Progress"] };
    const { server, summarizer } = await extending({}, () => ({ body }));
    await summarizer.summarize(asked);
    expect(server.requests[0]!.body["messages"]).toHaveLength(4);
    expect(server.requests[0]!.body["stop_sequences"]).toBeUndefined();
  });

  it("unless that was for another model, ends with a call, is missing, or extending is off", async () => {
    const open = sent();
    const refused: (LastRequest | undefined)[] = [
      { body: { ...sent(), model: "claude-opus-4-5" } },
      { body: { ...open, messages: open.messages.slice(0, 2) } },
      undefined,
    ];
    for (const last of refused) {
      const { server, summarizer } = await extending({}, () => last);
      await summarizer.summarize(asked);
      expect(server.requests[0]!.body["messages"]).toHaveLength(1);
    }
    const { server, summarizer } = await extending({ ask: "standalone" });
    await summarizer.summarize(asked);
    expect(server.requests[0]!.body["messages"]).toHaveLength(1);
  });

  it("as long as it contains exactly the summarized messages: no later ones, or ones of another branch", async () => {
    const called = assistant("", [{ id: "t1", name: "read", arguments: {} }]);
    const escaped = 'Say "ä\n😀"';
    for (const [messages, count] of [
      [[user("hi"), assistant("hello"), result("t1", "text ".repeat(200))], 4],
      [[user("hi"), called], 4],
      [[user("hi"), picture()], 4],
      [[user("hi"), assistant("hello"), assistant("It is green.")], 1],
      [[user("Elsewhere?"), assistant("hello")], 1],
      // The words are there, but not as the answer to what was said last.
      [[user("hi"), result("t1", "text ".repeat(200)), assistant("hello")], 1],
      [[user("hi"), user("And then?"), assistant("hello")], 1],
      [[user("hi"), assistant("", [{ id: "t2", name: "read", arguments: {} }])], 1],
      [[user(escaped), assistant("hello")], 1],
    ] as const) {
      const { server, summarizer } = await extending();
      await summarizer.summarize({ ...asked, messages });
      expect(server.requests[0]!.body["messages"]).toHaveLength(count);
    }
    const body = { ...sent(), messages: [{ role: "user", content: `${escaped}, please` }] };
    const { server, summarizer } = await extending({}, () => ({ body }));
    await summarizer.summarize({ ...asked, messages: [user(escaped)] });
    expect(server.requests[0]!.body["messages"]).toHaveLength(2);
  });

  it("as long as it fits; otherwise the request is standalone", async () => {
    for (const [inputTokens, messages] of [
      [100_000, 4],
      [199_500, 1],
    ] as const) {
      const { server, summarizer } = await extending({}, () => ({ body: sent(), inputTokens }));
      await summarizer.summarize({ ...asked, maxOutputTokens: 13_000 });
      expect(server.requests[0]!.body["messages"]).toHaveLength(messages);
    }
  });

  it("for whole summaries only, not for parts and their combination", async () => {
    const { server, summarizer } = await extending();
    for (const purpose of ["chunk", "combine", "merge"] as const)
      await summarizer.summarize({ ...asked, purpose });
    expect(server.requests.map(({ body }) => (body["messages"] as unknown[]).length)).toEqual([1, 1, 1]);
  });

  it("for any size of the transcript, which is not sent", async () => {
    const long = user("long ".repeat(100_000));
    const body = {
      ...sent(),
      messages: [{ role: "user", content: long.content }, ...sent().messages.slice(1)],
    };
    const { server, summarizer } = await extending({}, () => ({ body, inputTokens: 150_000 }));
    const answer = await summarizeFitting(summarizer, request([long], { maxOutputTokens: 8_000 }));
    expect(answer).toMatchObject({ calls: 1, omitted: { chunks: [], shortened: [] } });
    expect(server.requests[0]!.body["messages"]).toHaveLength(4);
  });

  it("with room for the thinking that the request fixes", async () => {
    const { server, summarizer } = await extending({}, () => ({
      body: { ...sent(), thinking: { type: "enabled", budget_tokens: 5_000 } },
    }));
    await summarizer.summarize(asked);
    expect(server.requests[0]).toMatchObject({ problems: [], body: { max_tokens: 6_000 } });
  });

  it("unless the window has no room for that thinking", async () => {
    const thinking = { type: "enabled", budget_tokens: 10_000 };
    const { server, summarizer } = await extending({}, () => ({
      body: { ...sent(), thinking },
      inputTokens: 191_000,
    }));
    await summarizer.summarize({ ...asked, maxOutputTokens: 4_000 });
    expect(server.requests[0]!.problems).toEqual([]);
    expect(server.requests[0]!.body["messages"]).toHaveLength(1);
  });
});
