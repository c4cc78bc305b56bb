import Anthropic from "@anthropic-ai/sdk";
import { createSession, openOrCreate, type Provider, runStateOf, type Session } from "@espalier/engine";
import { aiSdk } from "@espalier/engine/ai-sdk";
import { anthropic } from "@espalier/engine/anthropic";
import { openai, openaiResponses } from "@espalier/engine/openai";
import { type OpenaiReply, startOpenaiServer } from "@espalier/engine/testing";
import { memoryStore, message, type StoredMessage } from "@espalier/session-tree";
import { type Reply, startMessagesServer, textReply } from "@espalier/summarizer/testing";
import { jsonSchema, simulateReadableStream } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import OpenAI from "openai";
import { afterAll, describe, expect, test, vi } from "vitest";

const endings: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of endings.reverse()) await end();
});

const quiet = { warn() {}, error() {} };
const parameters = { type: "object" as const, properties: { bed: { type: "string" as const } } };
const description = "Says what grows.";

/** A provider at a loopback server that answers by a script, and the requests that the server saw. */
interface Place {
  provider: Provider;
  /** Bodies, as JSON. */
  sent: () => string[];
  /** Rules that requests broke. */
  problems: () => string[];
}

interface Limits {
  contextWindow?: number;
  maxTokens?: number;
}

async function anthropicAt(script: readonly OpenaiReply[], limits: Limits = {}): Promise<Place> {
  const reply = (_: unknown, n: number): Reply => {
    const { text, calls = [], isCutOff, reasoning, breaksAfter } = script[n - 1] ?? { text: "(over)" };
    return {
      kind: "message",
      content: [
        ...(reasoning ? [{ type: "thinking" as const, thinking: reasoning, signature: "c2ln" }] : []),
        ...(text ? [{ type: "text" as const, text }] : []),
        ...calls.map((call) => ({ type: "tool_use" as const, ...call })),
      ],
      ...(isCutOff ? { stopReason: "max_tokens" } : {}),
      ...(breaksAfter ? { breaks: { afterDeltas: breaksAfter, how: "cut" as const }, deltaLength: 12 } : {}),
    };
  };
  const server = await startMessagesServer({ reply });
  endings.push(server.close);
  const client = new Anthropic({ apiKey: "key", baseURL: server.url, maxRetries: 0 });
  const tools = [{ name: "look", description, input_schema: parameters }];
  return {
    provider: anthropic(client, { model: "claude-haiku-4-5", system: "Tend.", tools, ...limits }),
    sent: () => server.requests.map(({ body }) => JSON.stringify(body)),
    problems: () => server.requests.flatMap(({ problems }) => problems),
  };
}

async function openaiAt(
  isChat: boolean,
  script: readonly OpenaiReply[],
  limits: Limits = {},
): Promise<Place> {
  const server = await startOpenaiServer((_, n) => script[n - 1] ?? { text: "(over)" });
  endings.push(server.close);
  const client = new OpenAI({ apiKey: "key", baseURL: server.url, maxRetries: 0 });
  const common = { model: "gpt-5-mini", system: "Tend.", ...limits };
  const look = { name: "look", description, parameters };
  return {
    provider: isChat
      ? openai(client, { ...common, tools: [{ type: "function", function: look }] })
      : openaiResponses(client, { ...common, tools: [{ type: "function", strict: false, ...look }] }),
    sent: () => server.requests.map(({ body }) => JSON.stringify(body)),
    problems: () => server.requests.flatMap(({ problems }) => problems),
  };
}

async function aiSdkAt(script: readonly OpenaiReply[], limits: Limits = {}): Promise<Place> {
  const prompts: string[] = [];
  const usage = {
    inputTokens: { total: 120, noCache: 20, cacheRead: 100, cacheWrite: 0 },
    outputTokens: { total: 10, text: 10, reasoning: 0 },
  };
  const model = new MockLanguageModelV3({
    provider: "openai.responses",
    modelId: "gpt-5-mini",
    doStream: async (options) => {
      prompts.push(JSON.stringify({ prompt: options.prompt, tools: options.tools }));
      const {
        text = "",
        calls = [],
        isCutOff,
        breaksAfter,
      } = script[prompts.length - 1] ?? { text: "(over)" };
      const pieces = text.match(/[\s\S]{1,12}/g) ?? [];
      const parts = [
        { type: "stream-start" as const, warnings: [] },
        ...(text ? [{ type: "text-start" as const, id: "t" }] : []),
        ...pieces.slice(0, breaksAfter).map((delta) => ({ type: "text-delta" as const, id: "t", delta })),
        ...(breaksAfter ? [{ type: "error" as const, error: new Error("The connection is gone.") }] : []),
        ...(text ? [{ type: "text-end" as const, id: "t" }] : []),
        ...calls.map(({ id, name, input }) => ({
          type: "tool-call" as const,
          toolCallId: id,
          toolName: name,
          input: JSON.stringify(input),
        })),
        {
          type: "finish" as const,
          usage,
          finishReason: {
            unified: isCutOff
              ? ("length" as const)
              : calls.length > 0
                ? ("tool-calls" as const)
                : ("stop" as const),
            raw: "x",
          },
        },
      ];
      return { stream: simulateReadableStream({ chunks: parts }) };
    },
  });
  const tools = { look: { description, inputSchema: jsonSchema<{ bed?: string }>(parameters) } };
  return {
    provider: aiSdk(model, { system: "Tend.", tools, ...limits }),
    sent: () => prompts,
    problems: () => [],
  };
}

const places = {
  anthropic: anthropicAt,
  "Chat Completions": (script: readonly OpenaiReply[], limits?: Limits) => openaiAt(true, script, limits),
  Responses: (script: readonly OpenaiReply[], limits?: Limits) => openaiAt(false, script, limits),
  "AI SDK": aiSdkAt,
};

const sessionOf = (): Promise<Session> => createSession({ store: memoryStore(), log: quiet });
const messagesOf = (session: Session) =>
  session.getEntries().flatMap((entry): StoredMessage[] => (message.is(entry) ? [entry.message] : []));

describe.each(Object.entries(places))("%s", (_name, at) => {
  test("a turn with two calls and its answer are in the session, with usage, and every request is valid", async () => {
    const calls = [
      { id: "c1", name: "look", input: { bed: "north" } },
      { id: "c2", name: "look", input: { bed: "south" } },
    ];
    const { provider, sent, problems } = await at([
      { text: "I look into both beds.", calls },
      { text: "Pears." },
    ]);
    const session = await sessionOf();
    await session.say("What grows here?");
    let heard = "";
    const first = await session.record(provider, await session.next(provider), {
      onText: (text) => {
        heard += text;
      },
    });
    expect(heard).toBe("I look into both beds.");
    expect(first.calls).toEqual(calls);
    let end = () => {};
    const southEnded = new Promise<void>((resolve) => {
      end = resolve;
    });
    // Both run at once: the first would never end before the second.
    await first.answerAll(async ({ input }) => {
      if (input["bed"] === "north") await southEnded;
      else end();
      return { ripe: input["bed"] };
    });
    const last = await session.record(provider, await session.next(provider));
    expect([last.text, last.calls]).toEqual(["Pears.", []]);
    expect(problems()).toEqual([]);
    expect(sent()).toHaveLength(2);
    expect(sent()[0]).toContain("Tend.");
    expect(sent()[0]).toContain("Says what grows.");
    expect(sent()[1]!.indexOf("north")).toBeLessThan(sent()[1]!.lastIndexOf("south"));
    expect(messagesOf(session).map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "toolResult",
      "toolResult",
      "assistant",
    ]);
    expect(last.message.usage?.totalTokens).toBeGreaterThan(0);
    expect(runStateOf(session).state).toBe("answered");
  });

  test("an answer whose connection breaks is kept as received, the error is thrown, and the next request is sent", async () => {
    const { provider, problems } = await at([
      { text: "The pears are ripe, and so are the plums.", breaksAfter: 2 },
      { text: "And the plums." },
    ]);
    const session = await sessionOf();
    await session.say("What grows here?");
    await expect(session.record(provider, await session.next(provider))).rejects.toThrow();
    const [, broken] = messagesOf(session);
    expect(broken).toMatchObject({ role: "assistant", stopReason: "error" });
    expect(JSON.stringify(broken)).toContain("The pears");
    expect((await session.record(provider, await session.next(provider))).text).toBe("And the plums.");
    expect(problems()).toEqual([]);
  });

  test("an abort ends the answer, which is kept as aborted, and the abort's reason is thrown", async () => {
    const { provider } = await at([{ text: "The pears are ripe." }]);
    const session = await sessionOf();
    await session.say("What grows here?");
    const controller = new AbortController();
    const request = await session.next(provider, { signal: controller.signal });
    const asking = session.record(provider, request, {
      send: () => new Promise(() => controller.abort(new Error("The user left."))),
    });
    await expect(asking).rejects.toThrow("The user left.");
    expect(messagesOf(session).at(-1)).toMatchObject({ role: "assistant", stopReason: "aborted" });
    await expect(session.next(provider, { signal: controller.signal })).rejects.toThrow("The user left.");
  });

  test("calls of an answer that was cut off do not run, and the model is told so", async () => {
    const calls = [{ id: "c1", name: "look", input: {} }];
    const { provider, sent } = await at([{ text: "I look.", calls, isCutOff: true }, { text: "Well." }]);
    const session = await sessionOf();
    await session.say("What grows here?");
    const turn = await session.record(provider, await session.next(provider));
    expect(turn.message.stopReason).toBe("length");
    await turn.answerAll(() => expect.unreachable());
    await session.record(provider, await session.next(provider));
    expect(sent()[1]).toContain("cut off at its limit");
  });

  test("it writes the summaries of the session", async () => {
    const summary =
      "## Goal\nPears.\n\n## Constraints & Preferences\n- none\n\n## Progress\n### Done\n- [x] looked\n\n## Key Decisions\n- none\n\n## Next Steps\n1. Look.\n\n## Critical Context\n- none";
    const { provider } = await at([{ text: summary }]);
    const session = await createSession({
      store: memoryStore(),
      log: quiet,
      compaction: { keepRecentTokens: 10 },
    });
    for (const day of [1, 2, 3])
      await session.appendMessages([
        { role: "user", content: `Day ${day}: ${"pears ".repeat(200)}` },
        { role: "assistant", content: "Ripe." },
      ]);
    const done = await session.compact({ summarizer: provider.summarizer! });
    expect(done).toMatchObject({ eligible: true, source: provider.summarizer!.name });
    expect(JSON.stringify(session.context.messages[0])).toContain("Pears.");
  });
});

test("a tool that throws, or that an abort ends, gives an error result", async () => {
  const calls = ["c1", "c2", "c3"].map((id) => ({ id, name: "look", input: {} }));
  const { provider } = await anthropicAt([{ calls }]);
  const session = await sessionOf();
  await session.say("Look.");
  const controller = new AbortController();
  const turn = await session.record(provider, await session.next(provider, { signal: controller.signal }));
  const [failed, alsoFailed, ended] = await turn.answerAll(({ id }) => {
    if (id === "c1") throw new Error("The bed is locked.");
    if (id === "c2") throw "No such bed.";
    controller.abort();
    return new Promise(() => undefined);
  });
  expect(failed).toMatchObject({ isError: true, content: [{ text: "The bed is locked." }] });
  expect(alsoFailed).toMatchObject({ isError: true, content: [{ text: "No such bed." }] });
  expect(ended).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("interrupted") }] });
});

test("a result that cannot be written is an error result, and a list of other values is a result in JSON", async () => {
  const outputs = [
    { content: "Pears.", details: () => "ripe" },
    "pears ".repeat(3_000_000),
    { content: ["pears", 7], bed: "north" },
    { content: [{ type: "text", text: "Pears." }] },
  ];
  const calls = outputs.map((_, at) => ({ id: `c${at}`, name: "look", input: {} }));
  const { provider, sent } = await anthropicAt([{ calls }, { text: "Well." }]);
  const session = await sessionOf();
  await session.say("Look.");
  const turn = await session.record(provider, await session.next(provider));
  const results = await turn.answerAll(({ id }) => outputs[Number(id.slice(1))]);
  expect(results).toMatchObject([
    { isError: true, content: [{ text: expect.stringMatching(/has ended.* function/) }] },
    { isError: true, content: [{ text: expect.stringMatching(/has ended.* bytes/) }] },
    { isError: false, content: [{ text: JSON.stringify(outputs[2]) }] },
    { isError: false, content: [{ text: "Pears." }] },
  ]);
  await session.record(provider, await session.next(provider));
  expect(sent()[1]).not.toContain("interrupted");
});

test("results of calls that end after the leaf was moved follow one another on the branch of their answer", async () => {
  const calls = ["c1", "c2", "c3"].map((id) => ({ id, name: "look", input: {} }));
  const { provider } = await anthropicAt([{ calls }]);
  const session = await sessionOf();
  const asked = await session.say("Look.");
  const turn = await session.record(provider, await session.next(provider));
  await session.moveTo(asked.id);
  const answering = turn.answerAll(({ id }) =>
    id === "c3" ? new Promise((done) => setTimeout(done, 20)) : id,
  );
  await expect(answering).rejects.toMatchObject({ code: "moved" });
  await vi.waitFor(() => expect(messagesOf(session)).toHaveLength(5));
  expect(session.leafId).toBe(asked.id);
  const last = session.getEntries().findLast((entry) => message.is(entry))!;
  const results = session.contextAt(last.id).messages.filter(({ role }) => role === "toolResult");
  expect(results).toMatchObject(calls.map(({ id }) => ({ toolCallId: id, isError: false })));
});

test("calls that an earlier process left without a result get one that says they were interrupted, before the next request", async () => {
  const { provider, problems, sent } = await anthropicAt([
    { calls: [{ id: "c1", name: "look", input: {} }] },
    { text: "Well." },
  ]);
  const session = await sessionOf();
  await session.say("Look.");
  await session.record(provider, await session.next(provider));
  await session.record(provider, await session.next(provider));
  expect(problems()).toEqual([]);
  expect(sent()[1]).toContain("its result was never recorded");
});

test("a conversation that ends in an answer has nothing to send", async () => {
  const { provider } = await anthropicAt([{ text: "Pears." }]);
  const session = await sessionOf();
  await expect(session.next(provider)).rejects.toMatchObject({ code: "empty-context" });
  await session.say("What grows here?");
  await session.record(provider, await session.next(provider));
  await session.appendMessages([{ role: "bashExecution", command: "ls", output: "pears" }]);
  await expect(session.next(provider)).rejects.toMatchObject({ code: "empty-context" });
  await expect(session.say("  ")).rejects.toMatchObject({ code: "bad-input" });
});

test("a request that is too long is compacted and sent once more", async () => {
  const server = await startMessagesServer({ contextWindow: 12_000, reply: textReply("Well.") });
  endings.push(server.close);
  const client = new Anthropic({ apiKey: "key", baseURL: server.url, maxRetries: 0 });
  const provider = anthropic(client, { model: "claude-haiku-4-5", maxTokens: 1_000 });
  const session = await createSession({
    store: memoryStore(),
    log: quiet,
    compaction: { keepRecentTokens: 1_000 },
  });
  for (const day of [1, 2, 3, 4, 5, 6])
    await session.appendMessages([
      { role: "user", content: `Day ${day}: ${"pears ".repeat(1_500)}` },
      { role: "assistant", content: "Ripe." },
    ]);
  await session.say("And now?");
  const events: string[] = [];
  const turn = await session.record({ ...provider, summarizer: undefined }, await session.next(provider), {
    onEvent: ({ type }) => void events.push(type),
    overflowRetryDelayMs: 1,
  });
  expect(turn.text).toBe("Well.");
  expect(events).toContain("retry");
  expect(session.getEntries().map(({ type }) => type)).toContain("compaction");
});

test("a request that a proxy finds too long is compacted and sent once more", async () => {
  const { provider } = await anthropicAt([{ text: "Well." }]);
  const session = await createSession({
    store: memoryStore(),
    log: quiet,
    compaction: { keepRecentTokens: 10 },
  });
  for (const day of [1, 2])
    await session.appendMessages([
      { role: "user", content: `Day ${day}: ${"pears ".repeat(1_000)}` },
      { role: "assistant", content: "Ripe." },
    ]);
  await session.say("And now?");
  let isSent = false;
  const signal = new AbortController().signal;
  const turn = await session.record({ ...provider, summarizer: undefined }, await session.next(provider), {
    send(params) {
      if (isSent) return provider.send(params, signal);
      isSent = true;
      throw Object.assign(new Error("413 Payload Too Large"), { status: 413 });
    },
    overflowRetryDelayMs: 1,
  });
  expect(turn.text).toBe("Well.");
  expect(session.getEntries().map(({ type }) => type)).toContain("compaction");
});

test("an answer of another SDK is refused with a sentence", async () => {
  const { provider } = await anthropicAt([]);
  const session = await sessionOf();
  await session.say("Look.");
  const request = await session.next(provider);
  await expect(session.record(provider, request, { send: () => ({ choices: [] }) })).rejects.toMatchObject({
    code: "bad-input",
    message: expect.stringContaining("not an answer of @anthropic-ai/sdk"),
  });
});

test("a whole answer is recorded like a stream", async () => {
  const { provider } = await anthropicAt([]);
  const session = await openOrCreate("whole", { store: memoryStore(), log: quiet });
  await session.say("Look.");
  const answer = {
    type: "message",
    role: "assistant",
    content: [{ type: "text", text: "Pears." }],
    stop_reason: "end_turn",
    usage: { input_tokens: 5, output_tokens: 2 },
  };
  const turn = await session.record(provider, await session.next(provider), { send: () => answer });
  expect(turn.message).toMatchObject({ stopReason: "stop", usage: { totalTokens: 7 } });
});

describe("a stream of another server with Anthropic's API", () => {
  const start = (more: object = {}) => ({
    type: "message_start",
    message: { id: "m", type: "message", role: "assistant", model: "x", content: [], ...more },
  });
  const block = { type: "content_block_start", index: 0, content_block: { type: "text", text: "Pears." } };
  const end = { type: "message_delta", delta: { stop_reason: "end_turn" } };

  async function recorded(events: readonly unknown[]) {
    const { provider } = await anthropicAt([]);
    const session = await sessionOf();
    await session.say("What grows here?");
    async function* stream() {
      yield* events;
    }
    const turn = await session.record(provider, await session.next(provider), { send: stream as never });
    return turn.message;
  }

  test("without a report of the usage is recorded", async () => {
    for (const usage of [null, undefined]) {
      const answer = await recorded([start({ usage }), block, end, { type: "message_stop" }]);
      expect(answer).toMatchObject({ content: [{ type: "text", text: "Pears." }], stopReason: "stop" });
      expect(answer.usage?.totalTokens).toBe(0);
    }
  });

  test("fails with a sentence at an event that cannot be read", async () => {
    const broken = [null, 5, { type: "message_start" }, { type: "content_block_delta", index: 0 }];
    for (const event of [...broken, { type: "message_delta", usage: {} }])
      await expect(recorded([start(), block, event, end])).rejects.toThrow(
        /^The stream of claude-\S+ has an event of another shape: /,
      );
    await expect(recorded([block, { type: "ping" }])).rejects.toThrow("ended before its answer");
  });
});

test("a provider without its client, or its model, says what is missing", () => {
  const nothing = undefined as never;
  const makers = [
    () => anthropic(nothing),
    () => anthropic(null as never),
    () => openai(nothing, { model: "gpt-5" }),
    () => openai(new OpenAI({ apiKey: "key" }), nothing),
    () => openaiResponses(nothing, nothing),
    () => aiSdk(nothing),
  ];
  for (const make of makers)
    expect(make).toThrow(
      expect.objectContaining({ code: "bad-input", message: expect.stringContaining(" needs ") }),
    );
});

test("the loopback server of OpenAI's APIs answers unknown requests like the provider", async () => {
  const server = await startOpenaiServer(() => ({ text: "Pears." }));
  endings.push(server.close);
  const statusOf = async (path: string, init: RequestInit) => {
    const response = await fetch(`${server.url}${path}`, init);
    return [response.status, ((await response.json()) as { error: { type: string } }).error.type];
  };
  const body = JSON.stringify({ model: "gpt-5", messages: [] });
  expect(await statusOf("/completions", { method: "POST", body })).toEqual([404, "invalid_request_error"]);
  expect(await statusOf("/models", {})).toEqual([404, "invalid_request_error"]);
  expect(await statusOf("/chat/completions", { method: "POST", body: "pears" })).toEqual([
    400,
    "invalid_request_error",
  ]);
  expect(server.requests).toHaveLength(1);
});

test("a message that does not fit is reported in sentences, without a stack", async () => {
  const { provider } = await anthropicAt([], { contextWindow: 20_000, maxTokens: 1_000 });
  const session = await createSession({ store: memoryStore() });
  await session.say("pears ".repeat(20_000));
  const reported = vi.spyOn(console, "error").mockImplementation(() => undefined);
  try {
    await expect(session.next(provider)).rejects.toMatchObject({ code: "irreducible" });
    expect(reported.mock.calls).toEqual([
      [expect.stringMatching(/^The session was not compacted, .* do not fit .*\.$/)],
    ]);
  } finally {
    reported.mockRestore();
  }
});
