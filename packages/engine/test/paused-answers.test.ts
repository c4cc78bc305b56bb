import Anthropic from "@anthropic-ai/sdk";
import { createSession, openSession, runStateOf, type Session } from "@espalier/engine";
import { anthropic } from "@espalier/engine/anthropic";
import { memoryStore, message, type StoredMessage } from "@espalier/session-tree";
import { type Reply, startMessagesServer, textReply } from "@espalier/summarizer/testing";
import { afterAll, expect, test } from "vitest";

const endings: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of endings.reverse()) await end();
});

const search = {
  type: "server_tool_use" as const,
  id: "srvtoolu_1",
  name: "web_search" as const,
  input: { query: "pears" },
};
const found = {
  type: "web_search_tool_result" as const,
  tool_use_id: "srvtoolu_1",
  content: [
    { type: "web_search_result", url: "https://example.org", title: "Pears", encrypted_content: "x" },
  ],
};
const paused: Reply = {
  kind: "message",
  content: [{ type: "text", text: "I search. " }, search],
  stopReason: "pause_turn",
};
const whole: Reply = { kind: "message", content: [found, { type: "text", text: "Pears grow here." }] };

/** Claude at a loopback server that refuses what the API refuses, and searches the web by itself. */
async function claude(replies: readonly Reply[]) {
  const server = await startMessagesServer({ reply: (_, n) => replies[n - 1] ?? textReply("(over)") });
  endings.push(server.close);
  const client = new Anthropic({ apiKey: "key", baseURL: server.url, maxRetries: 0 });
  const tools = [{ type: "web_search_20250305" as const, name: "web_search" as const }];
  const provider = anthropic(client, { model: "claude-haiku-4-5", tools });
  return { server, client, provider };
}

const sessionOf = (): Promise<Session> =>
  createSession({ store: memoryStore(), log: { warn() {}, error() {} } });
const messagesOf = (session: Session) =>
  session.getEntries().flatMap((entry): StoredMessage[] => (message.is(entry) ? [entry.message] : []));
const problemsOf = ({ requests }: { requests: { problems: string[] }[] }) =>
  requests.flatMap(({ problems }) => problems);

test.each(["streamed", "whole"])(
  "a paused answer is sent back unchanged, and the turn continues, %s",
  async (way) => {
    const { server, client, provider } = await claude([paused, whole]);
    const session = await sessionOf();
    await session.say("What grows here?");
    let heard = "";
    const turn = await session.record(provider, await session.next(provider), {
      ...(way === "whole" ? { send: (params) => client.messages.create(params) } : {}),
      onText: (text) => {
        heard += text;
      },
    });
    expect(problemsOf(server)).toEqual([]);
    expect(server.requests).toHaveLength(2);
    const sent = server.requests[1]!.body["messages"] as { role: string; content: unknown[] }[];
    expect(sent.map(({ role }) => role)).toEqual(["user", "assistant"]);
    expect(sent[1]!.content).toEqual([{ type: "text", text: "I search. " }, search]);
    expect([turn.text, turn.calls]).toEqual(["I search. Pears grow here.", []]);
    if (way === "streamed") expect(heard).toBe("I search. Pears grow here.");
    expect(messagesOf(session).map((said) => (said as { stopReason?: string }).stopReason)).toEqual([
      undefined,
      "deferred",
      "stop",
    ]);
    expect(runStateOf(session).state).toBe("answered");

    await session.say("And plums?");
    await session.record(provider, await session.next(provider));
    expect(problemsOf(server)).toEqual([]);
  },
);

test("a pause whose continuation failed continues with the next request", async () => {
  const { server, provider } = await claude([
    paused,
    { kind: "error", status: 500, type: "api_error", message: "" },
    whole,
  ]);
  const session = await sessionOf();
  await session.say("What grows here?");
  await expect(session.record(provider, await session.next(provider))).rejects.toThrow();
  const turn = await session.record(provider, await session.next(provider));
  expect(turn.text).toBe("Pears grow here.");
  expect(problemsOf(server)).toEqual([]);
});

test("a pause that ended in a crash is recognized after reopening", async () => {
  const store = memoryStore();
  const { server, provider } = await claude([paused, whole]);
  const log = { warn() {}, error() {} };
  const before = await createSession({ store, id: "crashed", log });
  await before.say("What grows here?");
  const crash = new AbortController();
  const request = await before.next(provider, { signal: crash.signal });
  const onEvent = ({ type }: { type: string }) =>
    type === "answer" && crash.abort(new Error("The process ended."));
  await expect(before.record(provider, request, { onEvent })).rejects.toThrow("The process ended.");
  await before.close();
  const session = await openSession("crashed", { store, log });
  expect(runStateOf(session).state).toBe("unsent");
  const turn = await session.record(provider, await session.next(provider));
  expect(turn.text).toBe("Pears grow here.");
  expect(problemsOf(server)).toEqual([]);
});

test("a search that was never continued is left out after a later message", async () => {
  const { server, provider } = await claude([
    paused,
    { kind: "error", status: 500, type: "api_error", message: "" },
  ]);
  const session = await sessionOf();
  await session.say("What grows here?");
  await expect(session.record(provider, await session.next(provider))).rejects.toThrow();
  await session.say("Never mind.");
  await session.record(provider, await session.next(provider));
  expect(problemsOf(server)).toEqual([]);
  expect(JSON.stringify(server.requests.at(-1)!.body)).not.toContain("srvtoolu_1");
});

test("the server refuses a search without a result, and a continuation of an answer without a pause", async () => {
  const { server, client } = await claude([]);
  const ask = (messages: Anthropic.MessageParam[]) =>
    client.messages.create({ model: "claude-haiku-4-5", max_tokens: 100, messages });
  const user = { role: "user" as const, content: "What grows here?" };
  await expect(ask([user, { role: "assistant", content: [search] }, user])).rejects.toThrow(
    /without a corresponding/,
  );
  await expect(ask([user, { role: "assistant", content: "Pears" }])).rejects.toThrow(
    /must end with a user message/,
  );
  expect(server.requests).toHaveLength(2);
});
