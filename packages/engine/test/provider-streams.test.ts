import { getEventListeners } from "node:events";
import type Anthropic from "@anthropic-ai/sdk";
import { createSession, type Provider, providerNamed } from "@espalier/engine";
import { aiSdk } from "@espalier/engine/ai-sdk";
import { anthropic } from "@espalier/engine/anthropic";
import { openai, openaiResponses } from "@espalier/engine/openai";
import { startOpenaiServer } from "@espalier/engine/testing";
import { fromAiSdk } from "@espalier/interop";
import { memoryStore, type SessionContext } from "@espalier/session-tree";
import { jsonSchema, simulateReadableStream } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";

const quiet = { warn() {}, error() {} };

/** Records an answer of a provider's stream, or a whole answer. */
async function recorded<Params>(provider: Provider<Params>, answer: readonly unknown[] | object) {
  const session = await asking();
  async function* stream(events: readonly unknown[]) {
    yield* events;
  }
  const turn = await session.record(provider, await session.next(provider), {
    send: () => (Array.isArray(answer) ? stream(answer) : answer),
  });
  await turn.answerAll(() => "pears");
  await session.say("And there?");
  return { turn, message: turn.message, next: (await session.next(provider)).params };
}

async function asking() {
  const session = await createSession({ store: memoryStore(), log: quiet });
  await session.say("What grows here?");
  return session;
}

describe("a stream with Anthropic's API", () => {
  const provider = () => anthropic({ messages: {} } as Anthropic, { model: "claude-haiku-4-5" });
  const start = {
    type: "message_start",
    message: { id: "m", type: "message", role: "assistant", model: "x", content: [] },
  };
  const block = (index: number, content_block: object) => ({
    type: "content_block_start",
    index,
    content_block,
  });
  const delta = (index: number, piece: object) => ({ type: "content_block_delta", index, delta: piece });
  const end = (stop_reason: string) => ({ type: "message_delta", delta: { stop_reason } });

  test("whose blocks start without text and signature is recorded and sent back as it came", async () => {
    const { message, next } = await recorded(provider(), [
      start,
      block(0, { type: "thinking" }),
      delta(0, { type: "thinking_delta", thinking: "Pears, " }),
      delta(0, { type: "thinking_delta", thinking: "I think." }),
      delta(0, { type: "signature_delta", signature: "c2ln" }),
      block(1, { type: "text" }),
      delta(1, { type: "text_delta", text: "Pears." }),
      end("end_turn"),
    ]);
    expect(message.content).toEqual([
      { type: "thinking", thinking: "Pears, I think.", thinkingSignature: "c2ln" },
      { type: "text", text: "Pears." },
    ]);
    expect(next.messages[1]?.content).toMatchObject([{ signature: "c2ln" }, { text: "Pears." }]);
  });

  test("that ends no blocks keeps the arguments of each call", async () => {
    const { turn } = await recorded(provider(), [
      start,
      block(0, { type: "tool_use", id: "c1", name: "look", input: {} }),
      block(1, { type: "tool_use", id: "c2", name: "look", input: {} }),
      delta(1, { type: "input_json_delta", partial_json: '{"bed":' }),
      delta(0, { type: "input_json_delta", partial_json: '{"bed":"north"}' }),
      delta(1, { type: "input_json_delta", partial_json: '"south"}' }),
      end("tool_use"),
    ]);
    expect(turn.calls.map(({ input }) => input)).toEqual([{ bed: "north" }, { bed: "south" }]);
  });

  test("that was cut off in a call, and has citations, keeps both", async () => {
    const citation = { type: "char_location", cited_text: "Pears", document_index: 0 };
    const { message } = await recorded(provider(), [
      start,
      block(0, { type: "text", text: "" }),
      delta(0, { type: "text_delta", text: "Pears." }),
      ...[1, 2].map((start_char_index) =>
        delta(0, { type: "citations_delta", citation: { ...citation, start_char_index } }),
      ),
      block(1, { type: "tool_use", id: "c1", name: "look", input: {} }),
      delta(1, { type: "input_json_delta", partial_json: '{"bed":' }),
      end("max_tokens"),
    ]);
    expect(message).toMatchObject({
      stopReason: "length",
      content: [{}, { arguments: { input: '{"bed":' } }],
    });
    expect(JSON.stringify(message.content[0])).toMatch(/start_char_index\W+1\b.*start_char_index\W+2\b/);
  });

  test("with an error after its first text fails with the words of that error", async () => {
    const failing = recorded(provider(), [
      start,
      block(0, { type: "text", text: "Pears" }),
      { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
    ]);
    await expect(failing).rejects.toThrow("Overloaded");
  });
});

describe("an answer of Chat Completions", () => {
  const client = { baseURL: "http://127.0.0.1:1/v1" } as OpenAI;
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    choices: [{ index: 0, delta, finish_reason }],
  });
  const piece = (called: object, more: object = {}) => chunk({ tool_calls: [{ ...more, function: called }] });

  test("whose server failed at its end counts as failed", async () => {
    const provider = openai(client, { model: "pear" });
    const { message } = await recorded(provider, [chunk({ content: "Pea" }), chunk({}, "error")]);
    expect(message).toMatchObject({ stopReason: "error", errorMessage: "The model stopped: error." });
  });

  test("with pieces of calls without an index has each call once", async () => {
    const { turn } = await recorded(openai(client, { model: "pear" }), [
      piece({ name: "look", arguments: "" }, { id: "c1" }),
      piece({ arguments: '{"bed":' }),
      piece({ arguments: '"north"}' }),
      piece({ name: "look", arguments: { bed: "south" } }, { id: "c2" }),
      chunk({}, "tool_calls"),
    ]);
    expect(turn.calls).toEqual([
      { id: "c1", name: "look", input: { bed: "north" } },
      { id: "c2", name: "look", input: { bed: "south" } },
    ]);
  });

  test("whose calls all have the same index, or whose pieces all have other ids, has each call once", async () => {
    const begin = (id: string, bed: string) =>
      piece({ name: "look", arguments: `{"bed":"${bed}"` }, { index: 0, id });
    const end = (id: string) => piece({ arguments: "}" }, { index: 0, id });
    const answers = [
      [begin("c1", "north"), end("c1"), begin("c2", "south"), end("c2")],
      [begin("c1", "north"), end("x1"), begin("c2", "south"), end("x2")],
    ];
    for (const chunks of answers) {
      const { turn } = await recorded(openai(client, { model: "pear" }), [
        ...chunks,
        chunk({}, "tool_calls"),
      ]);
      expect(turn.calls).toEqual([
        { id: "c1", name: "look", input: { bed: "north" } },
        { id: "c2", name: "look", input: { bed: "south" } },
      ]);
    }
  });

  test("that names no role is recorded, and one without a message has no content", async () => {
    const provider = openai(client, { model: "pear" });
    const whole = (message: object | null) => ({ choices: [{ message, finish_reason: "stop" }] });
    const { message } = await recorded(provider, whole({ content: "Pears." }));
    expect(message.content).toEqual([{ type: "text", text: "Pears." }]);
    expect((await recorded(provider, whole(null))).message.content).toEqual([]);
  });

  test("calls a custom tool, which is sent as it was given", async () => {
    const tool = { type: "custom", custom: { name: "sql", description: "Runs SQL." } } as const;
    const provider = openai(client, { model: "pear", tools: [tool] });
    const { turn, next } = await recorded(provider, [
      chunk({
        tool_calls: [{ index: 0, id: "c1", type: "custom", custom: { name: "sql", input: "select " } }],
      }),
      chunk({ tool_calls: [{ index: 0, custom: { input: "1" } }] }),
      chunk({}, "tool_calls"),
    ]);
    expect(turn.calls).toEqual([{ id: "c1", name: "sql", input: { input: "select 1" } }]);
    expect(next.tools).toEqual([tool]);
    expect(next.messages[1]).toMatchObject({
      tool_calls: [{ type: "custom", custom: { name: "sql", input: "select 1" } }],
    });
  });
});

test("thinking and text of an answer are passed on in pieces", async () => {
  const part = (type: string, delta: string) => ({ type, id: "p", delta });
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  const finish = { type: "finish", usage, finishReason: { unified: "stop", raw: "x" } };
  const parts = [
    part("reasoning-delta", "Pears"),
    part("reasoning-delta", "?"),
    part("text-delta", "Pears."),
  ];
  const begun = ["reasoning-start", "text-start"].map((type) => ({ type, id: "p" }));
  const chunks = [{ type: "stream-start", warnings: [] }, ...begun, ...parts, finish] as never[];
  const model = new MockLanguageModelV3({
    doStream: async () => ({ stream: simulateReadableStream({ chunks }) }),
  });
  const client = new OpenAI({ apiKey: "key", baseURL: "http://127.0.0.1:1/v1" });
  const chunk = (delta: object, finish_reason?: string) => ({
    choices: [{ index: 0, delta, finish_reason }],
  });
  const content = [{ type: "output_text", text: "Pears.", annotations: [] }];
  const response = { status: "completed", output: [{ type: "message", role: "assistant", content }] };
  const answers: [Provider, unknown[] | undefined][] = [
    [aiSdk(model), undefined],
    [
      openai(client, { model: "pear" }),
      [
        chunk({ reasoning_content: "Pears" }),
        chunk({ reasoning: "?" }),
        chunk({ content: "Pears." }, "stop"),
      ],
    ],
    [
      openaiResponses(client, { model: "pear" }),
      [
        { type: "response.reasoning_summary_text.delta", delta: "Pears" },
        { type: "response.reasoning_text.delta", delta: "?" },
        { type: "response.output_text.delta", delta: "Pears." },
        { type: "response.completed", response },
      ],
    ],
  ];
  for (const [provider, events] of answers) {
    const session = await asking();
    const heard: unknown[] = [];
    async function* stream() {
      yield* events!;
    }
    await session.record(provider, await session.next(provider), {
      ...(events ? { send: stream } : {}),
      onEvent: (event) => "text" in event && heard.push([event.type, event.text]),
    });
    expect(heard).toEqual([
      ["thinking", "Pears"],
      ["thinking", "?"],
      ["text", "Pears."],
    ]);
  }
});

test("an answer of Chat Completions is limited by the field that its server knows", async () => {
  const at = (baseURL: string, isCompatible?: boolean) =>
    openai(new OpenAI({ apiKey: "key", baseURL }), {
      model: "gpt-5",
      ...(isCompatible === undefined ? {} : { isCompatible }),
    });
  const named = (openaiBaseUrl: string) => providerNamed("openai:gpt-5", { settings: { openaiBaseUrl } });
  const own = "https://api.openai.com/v1";
  const azure = "https://garden.openai.azure.com/openai/v1";
  const other = "http://127.0.0.1:11434/v1";
  const made = openai(async () => new OpenAI({ apiKey: "key" }), { model: "gpt-5" });
  const { context } = await asking();
  const fieldOf = (provider: Provider) =>
    Object.keys(provider.params(context, { maxOutputTokens: 7 }) as object).find((key) =>
      key.startsWith("max_"),
    );
  expect([at(own), at(azure), at(other, false), made, named(own), named(azure)].map(fieldOf)).toEqual(
    Array(6).fill("max_completion_tokens"),
  );
  expect([at(other), at(own, true), named(other)].map(fieldOf)).toEqual(Array(3).fill("max_tokens"));
});

test("a request has the fields of tools that only its API knows, and the tools that the provider runs", async () => {
  const { context } = await asking();
  const input_schema = { type: "object" as const };
  const look = { name: "look", description: "Looks.", input_schema };
  const search = { type: "web_search_20250305" as const, name: "web_search" as const };
  const marked = { cache_control: { type: "ephemeral" as const } };
  const requestOf = (provider: Provider, asked: SessionContext = context) =>
    provider.params(asked, { tools: provider.tools, maxOutputTokens: 7 }) as { tools: object[] };
  const claude = anthropic({ messages: {} } as Anthropic, { tools: [{ ...look, ...marked }, search] });
  expect(requestOf(claude).tools).toMatchObject([{ ...look, ...marked }, search]);
  const client = new OpenAI({ apiKey: "key", baseURL: "http://127.0.0.1:1/v1" });
  const parameters = { type: "object" };
  const own = { name: "look", parameters, strict: true };
  const chat = openai(client, { model: "gpt-5", tools: [{ type: "function", function: own }] });
  expect(requestOf(chat).tools).toMatchObject([{ type: "function", function: own }]);
  const gpt = openaiResponses(client, {
    model: "gpt-5",
    tools: [{ type: "function", ...own }, { type: "web_search" }],
  });
  expect(requestOf(gpt)).toMatchObject({
    tools: [{ type: "function", ...own }, { type: "web_search" }],
    include: ["reasoning.encrypted_content"],
  });
  // At most four marks of the cache, those of the program among them.
  const session = await asking();
  for (const role of ["assistant", "user"] as const)
    await session.appendMessages([{ role, content: "Pears." }]);
  const marks = (tools: Anthropic.Tool[]) =>
    JSON.stringify(requestOf(anthropic({ messages: {} } as Anthropic, { tools }), session.context)).split(
      "cache_control",
    ).length - 1;
  const named = Array.from({ length: 4 }, (_, at) => ({ ...look, name: `look-${at}` }));
  expect(
    [0, 1, 2, 3, 4].map((n) => marks(named.map((tool, at) => (at < n ? { ...tool, ...marked } : tool)))),
  ).toEqual([3, 4, 4, 4, 4]);
});

test("an abort ends an answer whose stream ignores it and goes on, and no listener remains", async () => {
  const provider = openai({ baseURL: "http://127.0.0.1:1/v1" } as OpenAI, { model: "pear" });
  const controller = new AbortController();
  const { signal } = controller;
  async function* endless() {
    for (;;) {
      yield { choices: [{ index: 0, delta: { content: "pears " }, finish_reason: null }] };
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  const session = await createSession({ store: memoryStore(), log: quiet });
  await session.say("What grows here?");
  let heard = 0;
  const asking = session.record(provider, await session.next(provider, { signal }), {
    send: endless,
    onText: () => ++heard === 3 && controller.abort(new Error("The user left.")),
  });
  await expect(asking).rejects.toThrow("The user left.");
  expect(session.context.messages.at(-1)).toMatchObject({ role: "assistant", stopReason: "aborted" });
  expect(getEventListeners(signal, "abort")).toEqual([]);
}, 5_000);

test("a request that fails without any error is recorded as failed, and throws", async () => {
  const provider = openai({ baseURL: "http://127.0.0.1:1/v1" } as OpenAI, { model: "pear" });
  for (const nothing of [undefined, null]) {
    const session = await asking();
    const send = () => Promise.reject(nothing);
    await expect(session.record(provider, await session.next(provider), { send })).rejects.toThrow(
      "without a reason",
    );
    expect(session.context.messages.at(-1)).toMatchObject({ role: "assistant", stopReason: "error" });
  }
});

test("an answer of the AI SDK has the cost of its cache, and a call whose input is no JSON the text of it", async () => {
  const usage = {
    inputTokens: { total: 111, noCache: 1, cacheRead: 100, cacheWrite: 10 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  const model = new MockLanguageModelV3({
    doStream: async () => ({
      stream: simulateReadableStream({
        chunks: [
          { type: "stream-start", warnings: [] },
          { type: "tool-call", toolCallId: "c1", toolName: "look", input: '{"bed":' },
          { type: "tool-call", toolCallId: "c2", toolName: "look", input: '{"bed":"south"}' },
          { type: "finish", usage, finishReason: { unified: "tool-calls", raw: "x" } },
        ],
      }),
    }),
  });
  const look = { inputSchema: jsonSchema({ type: "object" }) };
  const session = await createSession({ store: memoryStore(), log: quiet });
  const prices = { input: 10, output: 50, cacheRead: 1, cacheWrite: 12.5 };
  const provider = aiSdk(model, { tools: { look }, prices });
  await session.say("What grows here?");
  const { calls, message } = await session.record(provider, await session.next(provider));
  expect(message.usage).toMatchObject({ input: 1, output: 1, cacheRead: 100, cacheWrite: 10 });
  expect(message.usage?.cost?.total).toBeCloseTo((10 + 50 + 100 + 125) / 1_000_000, 12);
  expect(calls.map(({ input }) => input)).toEqual([{ value: '{"bed":' }, { bed: "south" }]);
});

test("an answer of the AI SDK after a call that the user denied is recorded", async () => {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } } as never;
  const model = new MockLanguageModelV3({
    doStream: async () => ({
      stream: simulateReadableStream({
        chunks: [
          { type: "stream-start", warnings: [] },
          { type: "text-start", id: "t" },
          { type: "text-delta", id: "t", delta: "I do not look." },
          { type: "text-end", id: "t" },
          { type: "finish", usage, finishReason: { unified: "stop", raw: "x" } },
        ],
      }),
    }),
  });
  const provider = aiSdk(model, { tools: { look: { inputSchema: jsonSchema({ type: "object" }) } } });
  const { messages } = fromAiSdk(
    [
      { role: "user", content: "What grows here?" },
      {
        role: "assistant",
        content: [
          { type: "tool-call", toolCallId: "c1", toolName: "look", input: {} },
          { type: "tool-approval-request", approvalId: "a1", toolCallId: "c1" },
        ],
      },
      { role: "tool", content: [{ type: "tool-approval-response", approvalId: "a1", approved: false }] },
    ],
    { model: provider },
  );
  const session = await createSession({ store: memoryStore(), log: quiet });
  await session.appendMessages(messages);
  const turn = await session.record(provider, await session.next(provider));
  expect([turn.text, turn.message.role]).toEqual(["I do not look.", "assistant"]);
});

test("a response is one answer, also with items that a client can give: results of hosted tools, a compaction", async () => {
  const provider = openaiResponses({ responses: {} } as OpenAI, { model: "gpt-5.4" });
  const output = [
    { type: "compaction", id: "cmp_1", encrypted_content: "b3BhcXVl" },
    { type: "tool_search_call", id: "ts_1", call_id: null, execution: "server", arguments: {} },
    { type: "tool_search_output", id: "to_1", call_id: null, execution: "server", tools: [] },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "I look." }] },
    { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" },
  ];
  const { turn, message, next } = await recorded(provider, { output, status: "completed" });
  expect(message).toMatchObject({ role: "assistant", stopReason: "toolUse" });
  expect([turn.text, turn.calls]).toEqual(["I look.", [{ id: "call_1", name: "look", input: {} }]]);
  const input = next.input as { type: string }[];
  expect(input.map(({ type }) => type)).toEqual([
    "message",
    "compaction",
    "tool_search_call",
    "tool_search_output",
    "message",
    "function_call",
    "function_call_output",
    "message",
  ]);
});

test("a response that failed without a reason, or was cancelled, counts as failed", async () => {
  const provider = openaiResponses({} as OpenAI, { model: "pear" });
  for (const status of ["failed", "cancelled"]) {
    const response = { status, error: null, output: [] };
    const { message } = await recorded(provider, [{ type: "response.failed", response }]);
    expect(message.stopReason, status).toBe("error");
    expect(message.errorMessage).toMatch("gave no reason");
  }
});

describe("a request for a summary", () => {
  const request = {
    purpose: "history" as const,
    messages: [],
    transcript: "<user>Pears.</user>",
    instructions: "Summarize.",
    sections: [],
    maxOutputTokens: 100,
  };

  /** A provider whose client answers every request with these events, or throws. */
  function answering(events: readonly unknown[]): Provider {
    const create = async function* () {
      yield* events;
    };
    return openaiResponses({ responses: { create } } as unknown as OpenAI, { model: "pear" });
  }
  const failed = (code: string, message: string) => [
    { type: "response.failed", response: { status: "failed", error: { code, message }, output: [] } },
  ];
  const refusal = { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "No." }] };

  test.each([
    ["too-long", failed("context_length_exceeded", "Your input exceeds the context window.")],
    ["rate-limited", failed("rate_limit_exceeded", "Slow down.")],
    ["overloaded", [{ type: "error", code: "server_error", message: "Something broke." }]],
    ["overloaded", [{ type: "error", code: 502, message: "The provider is gone." }]],
    ["unauthorized", [{ type: "error", code: "insufficient_quota", message: "No credit." }]],
    ["connection", []],
  ])("that fails inside the stream is %s", async (code, events) => {
    await expect(answering(events).summarizer!.summarize(request)).rejects.toMatchObject({ code });
  });

  test("has no tools, formats and stop sequences of the program", async () => {
    const sent: object[] = [];
    const create = (params: object) => {
      sent.push(params);
      return [{ error: { message: "Not here." } }].values();
    };
    const client = { baseURL: "", chat: { completions: { create } }, responses: { create } };
    const parameters = { tool_choice: "required", parallel_tool_calls: false, temperature: 0 } as const;
    const providers = [
      openai(client as unknown as OpenAI, {
        model: "pear",
        parameters: { ...parameters, response_format: { type: "json_object" }, stop: ["##"] },
      }),
      openaiResponses(client as unknown as OpenAI, {
        model: "pear",
        tools: [{ type: "web_search" }],
        parameters: { ...parameters, text: { format: { type: "json_object" }, verbosity: "low" } },
      }),
    ];
    for (const { summarizer } of providers) await summarizer!.summarize(request).catch(() => undefined);
    expect(sent.map((params) => Object.keys(params).sort())).toEqual([
      ["max_tokens", "messages", "model", "stream", "stream_options", "temperature"],
      ["input", "instructions", "max_output_tokens", "model", "store", "stream", "temperature", "text"],
    ]);
    expect(sent[1]).toMatchObject({ text: { verbosity: "low" } });
  });

  test("reports its progress, and has the usage that was billed", async () => {
    const content = [{ type: "output_text", text: "## Goal", annotations: [] }];
    const output = [{ type: "message", role: "assistant", content }];
    const usage = { input_tokens: 12, output_tokens: 3 };
    const { summarizer } = answering([
      ...["## ", "Goal"].map((delta) => ({ type: "response.output_text.delta", delta })),
      { type: "response.completed", response: { status: "completed", output, usage } },
    ]);
    const progress: number[] = [];
    const onProgress = ({ outputTokens }: { outputTokens: number }) => void progress.push(outputTokens);
    expect(await summarizer!.summarize({ ...request, onProgress })).toMatchObject({
      text: "## Goal",
      stopReason: "stop",
      usage: { input: 12, output: 3 },
    });
    expect(progress).toEqual([1, 2]);
  });

  test("that the model refuses is an answer with a refusal", async () => {
    const response = { status: "completed", output: [refusal] };
    const { summarizer } = answering([{ type: "response.completed", response }]);
    expect(await summarizer!.summarize(request)).toMatchObject({ stopReason: "refusal" });
  });

  test("without a server, or whose connection breaks, is connection", async () => {
    const server = await startOpenaiServer(() => ({ text: "The pears are ripe.", breaksAfter: 1 }));
    const at = (baseURL: string) =>
      openai(new OpenAI({ apiKey: "key", baseURL, maxRetries: 0 }), { model: "pear" }).summarizer!;
    const code = "connection";
    await expect(at(server.url).summarize(request)).rejects.toMatchObject({ code });
    await server.close();
    await expect(at(server.url).summarize(request)).rejects.toMatchObject({ code });
  });

  test.each([
    "the request exceeds the available context size, try increasing it",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
  ])("that a server refuses as too long is made shorter: %s", async (message) => {
    const tooLong = 20_000;
    const server = await startOpenaiServer(({ body }) =>
      JSON.stringify(body).length > tooLong ? { status: 400, message } : { text: "## Goal\nPears." },
    );
    try {
      const client = new OpenAI({ apiKey: "key", baseURL: server.url, maxRetries: 0 });
      const provider = openai(client, { model: "pear", contextWindow: 32_000 });
      const session = await createSession({
        store: memoryStore(),
        log: quiet,
        compaction: { keepRecentTokens: 10, reserveTokens: 500, contextWindow: 32_000 },
      });
      for (const day of [1, 2, 3])
        await session.appendMessages([
          { role: "user", content: `Day ${day}: ${"pears ".repeat(2_000)}` },
          { role: "assistant", content: "Ripe." },
        ]);
      const done = await session.compact({ summarizer: provider.summarizer!, fallback: false });
      expect(done).toMatchObject({ eligible: true, source: provider.summarizer!.name });
      expect(server.requests.length).toBeGreaterThan(2);
    } finally {
      await server.close();
    }
  });
});
