import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { drawTree, memoryStore, openSession, type SessionStore } from "espalier";
import { EspalierSaver } from "espalier/adapters/langgraph";
import { messageText } from "espalier/extend";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-langgraph-"));
afterAll(() => rmSync(folder, { recursive: true }));
const freshHome = () => mkdtempSync(join(folder, "home-"));

let number = 0;
const answer = (content: string) => new AIMessage({ id: `answer-${number++}`, content });
const call = () => {
  const calls = [{ id: `call-${number}`, name: "look", args: { bed: "north" } }];
  return new AIMessage({ id: `answer-${number++}`, content: "", tool_calls: calls });
};
const result = (of: AIMessage) =>
  new ToolMessage({ content: "pears", name: "look", tool_call_id: of.tool_calls?.[0]?.id ?? "" });
const last = (messages: BaseMessage[]) => messages.at(-1) as AIMessage;

/** An agent with one tool. Its model looks, and then says what it found. */
function gardener(checkpointer: EspalierSaver) {
  return new StateGraph(MessagesAnnotation)
    .addNode("agent", async ({ messages }) => ({
      messages: [ToolMessage.isInstance(messages.at(-1)) ? answer("Ripe pears.") : call()],
    }))
    .addNode("tools", async ({ messages }) => ({ messages: [result(last(messages))] }))
    .addEdge(START, "agent")
    .addConditionalEdges("agent", ({ messages }) => (last(messages).tool_calls?.length ? "tools" : END))
    .addEdge("tools", "agent")
    .compile({ checkpointer });
}

const ask = (content: string) => ({ messages: [new HumanMessage({ id: `ask-${number++}`, content })] });
const onThread = (thread_id: string) => ({ configurable: { thread_id } });
async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const textsOf = (messages: readonly unknown[]) => messages.map((one) => messageText(one as never));

/** Texts that the session tells a model, at its leaf or at an entry. */
async function contextOf(id: string, place: { home?: string; store?: SessionStore }, entryId?: string) {
  const session = await openSession(id, { ...place, mode: "read" });
  const { messages } = entryId === undefined ? session.context : session.contextAt(entryId);
  await session.close();
  return textsOf(messages);
}

test("a graph continues its thread in another process, and the session is its conversation", async () => {
  const home = freshHome();
  const first = new EspalierSaver({ home });
  await gardener(first).invoke(ask("What grows?"), onThread("pears"));
  await first.close();
  const second = new EspalierSaver({ home });
  const { messages } = await gardener(second).invoke(ask("Still?"), onThread("pears"));
  await second.close();

  expect(messages).toHaveLength(8);
  expect(await contextOf("pears", { home })).toEqual(messages.map(({ text }: BaseMessage) => text));
  const session = await openSession("pears", { home, mode: "read" });
  const roles = session
    .getBranch()
    .flatMap((entry) => (entry as { message?: { role: string } }).message?.role ?? []);
  expect(roles).toEqual([
    "user",
    "assistant",
    "toolResult",
    "assistant",
    "user",
    "assistant",
    "toolResult",
    "assistant",
  ]);
  // One line without branches, although the graph runs ahead of its saver.
  expect(drawTree(session)).not.toMatch(/[├(]/);
  const titles = session
    .getEntries()
    .flatMap((entry) => (entry as { data?: { title: string } }).data?.title ?? []);
  expect(titles.slice(0, 5)).toEqual([
    "step -1 · input · start",
    "start · messages → agent",
    "step 0 · loop · messages → agent",
    "agent · messages → tools",
    "step 1 · loop · messages → tools",
  ]);
  await session.close();
});

test("two forks of one checkpoint keep both values", async () => {
  const saver = new EspalierSaver({ store: memoryStore() });
  const checkpointOf = (version: number, value: string[]) => ({
    ...emptyCheckpoint(),
    id: uuid6(version),
    channel_values: { messages: value },
    channel_versions: { messages: version },
  });
  const metadata = { source: "loop" as const, step: 0, parents: {} };
  const root = await saver.put(onThread("fork"), checkpointOf(1, ["a"]), metadata, { messages: 1 });
  const forks = [];
  for (const value of [
    ["a", "left"],
    ["a", "right"],
  ])
    forks.push(await saver.put(root, checkpointOf(2, value), metadata, { messages: 2 }));
  const values = forks.map(async (fork) => (await saver.get(fork))?.channel_values["messages"]);
  expect(await Promise.all(values)).toEqual([
    ["a", "left"],
    ["a", "right"],
  ]);
  expect((await saver.get(root))?.channel_values["messages"]).toEqual(["a"]);
  await saver.close();
});

test("a fork of an old checkpoint is a branch, and each branch reads its own messages", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home });
  const graph = gardener(saver);
  await graph.invoke(ask("What grows?"), onThread("fork"));
  const states = await all(graph.getStateHistory(onThread("fork")));
  const before = states.find(({ next }) => next[0] === "tools");
  const forked = await graph.updateState(before!.config, ask("And the plums?"), "__start__");
  const { messages } = await graph.invoke(null, forked);
  await saver.close();
  expect(await contextOf("fork", { home })).toEqual(messages.map(({ text }: BaseMessage) => text));
  const session = await openSession("fork", { home, mode: "read" });
  expect(session.branches()).toHaveLength(2);
  await session.close();
});
