import { createAnthropic } from "@ai-sdk/anthropic";
import { createSession, type Session } from "@espalier/engine";
import { aiSdk } from "@espalier/engine/ai-sdk";
import { receiveUiMessages, uiMessages, uiTurn, uiVersions } from "@espalier/engine/ui-messages";
import { isMessage, memoryStore } from "@espalier/session-tree";
import { type Reply, startMessagesServer, textReply, toolReply } from "@espalier/summarizer/testing";
import {
  createUIMessageStream,
  generateText,
  jsonSchema,
  readUIMessageStream,
  stepCountIs,
  streamText,
  ToolLoopAgent,
  type ToolSet,
  tool,
  type UIMessage,
} from "ai";
import { afterAll, afterEach, expect, test } from "vitest";

/** Called for every request. */
let reply: (n: number, body: string) => Reply = () => textReply("Pears.");
const server = await startMessagesServer({ reply: ({ body }, n) => reply(n, JSON.stringify(body)) });
const model = createAnthropic({ apiKey: "test", baseURL: `${server.url}/v1` })("claude-haiku-4-5");
afterAll(() => server.close());
afterEach(() => {
  expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
  expect(server.failures).toEqual([]);
  server.requests.length = 0;
});

const bed = jsonSchema<{ bed?: string }>({ type: "object", properties: { bed: { type: "string" } } });
const tools: ToolSet = {
  look: tool({ inputSchema: bed, execute: async ({ bed = "the garden" }) => ({ bed, pears: 3 }) }),
  dig: tool({ inputSchema: bed, needsApproval: true, execute: async () => "Dug." }),
  ask: tool({ inputSchema: bed }),
};
const provider = aiSdk(model, { maxTokens: 1_000, system: "You tend a garden.", tools });
const open = (): Promise<Session> => createSession({ cwd: "/garden", store: memoryStore() });
const says = (id: string, text: string): UIMessage => ({ id, role: "user", parts: [{ type: "text", text }] });

const step = { type: "step-start" };
const look = { type: "tool-look", state: "output-available" };
const text = { type: "text", text: "Pears." };

/** One request of a page: what it sends is taken, answered, and shown. Returns the messages that the page has then. */
async function send(session: Session, sent: UIMessage[], signal?: AbortSignal): Promise<UIMessage[]> {
  const messages = await receiveUiMessages(session, sent);
  const turn = await uiTurn(session, provider, { tools, ...(signal ? { signal } : {}) });
  const result = streamText({ ...turn.request, tools, stopWhen: stepCountIs(9), onError: () => {} });
  const last = messages.at(-1)!;
  const stream = result.toUIMessageStream(turn.response);
  let shown = last.role === "assistant" ? last : undefined;
  for await (const message of readUIMessageStream({ stream, ...(shown ? { message: shown } : {}) }))
    shown = message;
  await turn.saved;
  return [...messages.filter(({ id }) => id !== shown!.id), shown!];
}

const called = (body: string): boolean => /tool_result[^}]*\}\]\}\]/.test(body);
const shape = (session: Session) => session.context.messages.map(({ role }) => role).join(" ");

test("an answer with tools is in the log step by step, with its cost, and shown as on the page", async () => {
  const session = await open();
  const during: string[] = [];
  reply = (n) => {
    during.push(shape(session));
    if (n > 2) return textReply("Three pears.");
    const content = [
      { type: "thinking" as const, thinking: "Hm.", signature: "c2lnbmVk" },
      { type: "tool_use" as const, id: `c${n}`, name: "look", input: {} },
    ];
    return { kind: "message", content };
  };
  const shown = await send(session, [says("q1", "What grows here?")]);
  expect(shown[1]!.parts.map(({ type }) => type)).toEqual(
    [
      ["step-start", "reasoning", "tool-look"],
      ["step-start", "reasoning", "tool-look"],
      ["step-start", "text"],
    ].flat(),
  );
  expect(await uiMessages(session)).toEqual(JSON.parse(JSON.stringify(shown)));
  expect(during).toEqual([
    "user",
    "user assistant toolResult",
    "user assistant toolResult assistant toolResult",
  ]);
  const answers = session.context.messages.flatMap((one) => (one.role === "assistant" ? [one] : []));
  expect(answers.map(({ usage }) => (usage?.input ?? 0) > 0)).toEqual([true, true, true]);
  expect(answers.map(({ stopReason }) => stopReason)).toEqual(["toolUse", "toolUse", "stop"]);
  expect(JSON.stringify(session.getEntries())).not.toContain('"ui":{"parts"');
  // It goes on from the log alone.
  reply = () => textReply("Plums.");
  await send(session, [says("q2", "And there?")]);
  expect(JSON.stringify(server.requests.at(-1)!.body)).toContain("c2lnbmVk");
});

test("a call waits for its approval; approved it runs, denied it does not", async () => {
  for (const approved of [true, false]) {
    const session = await open();
    let asked = 0;
    reply = () => (++asked === 1 ? toolReply([{ id: "d1", name: "dig", input: {} }]) : textReply("Done."));
    const [question, waiting] = await send(session, [says("q1", "Dig.")]);
    expect(await uiMessages(session)).toEqual(JSON.parse(JSON.stringify([question, waiting])));
    const parts = waiting!.parts.map((part) =>
      "approval" in part && part.approval
        ? { ...part, state: "approval-responded", approval: { ...part.approval, approved } }
        : part,
    ) as UIMessage["parts"];
    const shown = await send(session, [question!, { ...waiting!, parts }]);
    expect(shown).toHaveLength(2);
    expect(shown[1]!.parts[1]).toMatchObject({ state: approved ? "output-available" : "output-denied" });
    expect(shown[1]!.parts.at(-1)).toMatchObject({ text: "Done." });
    expect(await uiMessages(session)).toEqual(JSON.parse(JSON.stringify(shown)));
    expect(JSON.stringify(session.context.messages)).toContain(approved ? "Dug." : "denied");
    expect(await uiVersions(session)).toEqual({});
  }
});

test("a call of the page's own tools waits for its output", async () => {
  const session = await open();
  reply = (_, body) =>
    called(body) ? textReply("Thank you.") : toolReply([{ id: "k1", name: "ask", input: {} }]);
  const [question, waiting] = await send(session, [says("q1", "Ask me.")]);
  const parts = waiting!.parts.map((part) =>
    part.type === "tool-ask" ? { ...part, state: "output-available", output: "Roses." } : part,
  ) as UIMessage["parts"];
  const shown = await send(session, [question!, { ...waiting!, parts }]);
  expect(await uiMessages(session)).toEqual(JSON.parse(JSON.stringify(shown)));
  expect(JSON.stringify(server.requests.at(-1)!.body)).toContain("Roses.");
});

test("metadata and data of a stream are kept with its answer", async () => {
  const session = await open();
  reply = (n) => (n === 1 ? toolReply([{ id: "c1", name: "look", input: {} }]) : textReply("Pears."));
  await receiveUiMessages(session, [says("q1", "What grows here?")]);
  const turn = await uiTurn(session, provider, { tools });
  const { generateMessageId: generateId, ...response } = turn.response;
  const stream = createUIMessageStream<UIMessage>({
    ...response,
    generateId,
    execute({ writer }) {
      writer.write({ type: "start", messageId: generateId() });
      writer.write({ type: "data-weather", data: { sun: true } });
      const result = streamText({ ...turn.request, tools, stopWhen: stepCountIs(5) });
      writer.merge(result.toUIMessageStream({ sendStart: false, messageMetadata: () => ({ seconds: 2 }) }));
    },
  });
  let shown: UIMessage | undefined;
  for await (const message of readUIMessageStream({ stream })) shown = message;
  await turn.saved;
  expect((await uiMessages(session))[1]).toEqual(JSON.parse(JSON.stringify(shown)));
  expect(shown).toMatchObject({
    metadata: { seconds: 2 },
    parts: [{ type: "data-weather" }, step, look, step, text],
  });
});

test("a step that cannot be recorded ends the answer, and is reported", async () => {
  const errors: string[] = [];
  const log = { ...console, error: (message: string) => errors.push(message) };
  const session = await createSession({ cwd: "/garden", store: memoryStore(), log });
  reply = () => toolReply([{ id: "c1", name: "look", input: {} }]);
  await session.say("What grows here?");
  const turn = await uiTurn(session, provider, { tools });
  const result = streamText({ ...turn.request, tools, stopWhen: stepCountIs(5), onError: () => {} });
  for await (const chunk of result.toUIMessageStream(turn.response))
    if (chunk.type === "tool-input-start") await session.close();
  await expect(turn.saved).rejects.toMatchObject({ code: "closed" });
  expect(errors).toEqual([expect.stringContaining("An answer was not recorded")]);
  expect(server.requests).toHaveLength(1);
});

test("an aborted answer keeps its received part, and the next message continues", async () => {
  const session = await open();
  const abort = new AbortController();
  reply = () => textReply("Pears and plums and cherries.", { breaks: { afterDeltas: 1, how: "hang" } });
  await receiveUiMessages(session, [says("q1", "What grows here?")]);
  const turn = await uiTurn(session, provider, { signal: abort.signal, tools });
  const result = streamText({ ...turn.request, tools });
  for await (const chunk of result.toUIMessageStream(turn.response))
    if (chunk.type === "text-delta") abort.abort();
  await turn.saved;
  const [, cut] = await uiMessages(session);
  expect(cut!.parts).toMatchObject([{ type: "step-start" }, { type: "text", state: "streaming" }]);
  reply = () => textReply("Plums.");
  const shown = await send(session, [says("q2", "And there?")]);
  expect(shown).toHaveLength(4);
});

test("two answers to one message at the same time are each recorded and shown once", async () => {
  const session = await open();
  reply = (n) => textReply(`Answer ${n}.`);
  const sent = await receiveUiMessages(session, [says("q1", "What grows here?")]);
  await Promise.all([send(session, sent), send(session, sent)]);
  const shown = await uiMessages(session);
  expect(shown.map(({ parts }) => parts.length)).toEqual([1, 2, 2]);
  expect(new Set(shown.map(({ id }) => id)).size).toBe(3);
  const answers = session.getEntries().filter((entry) => isMessage(entry, "assistant"));
  expect(answers).toHaveLength(2);
});

test("an answer without a page is saved at its end: of generateText, of an agent, and of a plain stream", async () => {
  const stopWhen = stepCountIs(2);
  const answers: ((turn: Awaited<ReturnType<typeof uiTurn>>) => PromiseLike<unknown>)[] = [
    ({ request }) => generateText({ ...request, tools, stopWhen }),
    ({ request: { messages, ...settings } }) =>
      new ToolLoopAgent({ ...settings, tools, stopWhen }).generate({ messages }),
    ({ request }) => streamText({ ...request, tools, stopWhen }).text,
  ];
  for (const answer of answers) {
    const session = await open();
    reply = (n) => toolReply([{ id: `c${n}`, name: "look", input: {} }]);
    await session.say("What grows here?");
    const turn = await uiTurn(session, provider, { tools });
    await answer(turn);
    await turn.saved;
    expect(shape(session)).toBe("user assistant toolResult assistant toolResult");
  }
});

test("a failed answer is requested again", async () => {
  const session = await open();
  reply = () => ({ kind: "error", status: 400, type: "invalid_request_error", message: "No." });
  const messages = await receiveUiMessages(session, [says("q1", "What grows here?")]);
  const turn = await uiTurn(session, provider, { tools });
  const result = streamText({ ...turn.request, tools, maxRetries: 0, onError: () => {} });
  await result.toUIMessageStream(turn.response).pipeTo(new WritableStream());
  await turn.saved;
  expect(await uiMessages(session)).toEqual(messages);
  reply = () => textReply("Pears.");
  expect(await send(session, messages)).toHaveLength(2);
});

test("a long run is compacted between two of its steps", async () => {
  const session = await createSession({ cwd: "/garden", store: memoryStore() });
  const small = aiSdk(model, { maxTokens: 1_000, contextWindow: 24_000, tools });
  const many = {
    look: tool({ inputSchema: bed, execute: async () => `pears ${"and plums ".repeat(1_500)}` }),
  };
  let steps = 0;
  reply = (_, body) => {
    if (!body.includes('"tools"')) return textReply("## Goal\nLook.\n"); // a summary
    return ++steps < 14 ? toolReply([{ id: `c${steps}`, name: "look", input: {} }]) : textReply("All of it.");
  };
  await session.say("Look everywhere.");
  const turn = await uiTurn(session, small, { tools: many });
  const { messages, ...settings } = turn.request;
  const agent = new ToolLoopAgent({ ...settings, tools: many, stopWhen: stepCountIs(20) });
  const result = await agent.stream({ messages });
  expect(await result.text).toBe("All of it.");
  expect(session.getEntries().filter(({ type }) => type === "compaction").length).toBeGreaterThan(0);
  const longest = Math.max(...server.requests.map(({ raw }) => raw.length));
  expect(longest).toBeLessThan(24_000 * 4);
  const shown = await uiMessages(session);
  expect(shown).toHaveLength(2);
  expect(shown[1]!.parts.filter(({ type }) => type === "tool-look")).toHaveLength(13);
});
