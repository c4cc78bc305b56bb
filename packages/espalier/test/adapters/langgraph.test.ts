import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  DeltaChannel,
  END,
  interrupt,
  MessagesAnnotation,
  messagesDeltaReducer,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { drawTree, type Entry, memoryStore, openSession, type SessionStore } from "espalier";
import { EspalierSaver } from "espalier/adapters/langgraph";
import { isMessage, messageText } from "espalier/extend";
import fc from "fast-check";
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

const titlesOf = (entries: readonly Entry[]) =>
  entries.flatMap((entry) => (entry as { data?: { title: string } }).data?.title ?? []);
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
    "start writes messages → agent",
    "step 0 · loop · messages → agent",
    "agent writes messages → tools",
    "step 1 · loop · messages → tools",
  ]);
  await session.close();
});

const metadata = { source: "loop" as const, step: 0, parents: {} };
const checkpointOf = (version: number, messages: unknown) => ({
  ...emptyCheckpoint(),
  id: uuid6(version),
  channel_values: { messages },
  channel_versions: { messages: version },
});

test.each(["sync", "async", "exit"] as const)(
  "a thread has one branch with durability %s",
  async (durability) => {
    const home = freshHome();
    const saver = new EspalierSaver({ home });
    const graph = gardener(saver);
    for (const question of ["What grows?", "Still?"])
      await graph.invoke(ask(question), { ...onThread("line"), durability });
    const { values } = await graph.getState(onThread("line"));
    await saver.close();
    expect(await contextOf("line", { home })).toEqual(values.messages.map(({ text }: BaseMessage) => text));
    const session = await openSession("line", { home, mode: "read" });
    expect(session.branches()).toHaveLength(1);
    await session.close();
  },
);

test("late writes do not move the leaf from the newest checkpoint", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home });
  const [first, second] = [checkpointOf(1, []), checkpointOf(2, ["b"])];
  const parent = await saver.put(onThread("late"), first, metadata, { messages: 1 });
  const newest = await saver.put(parent, second, metadata, { messages: 2 });
  await saver.putWrites(parent, [["messages", "a"]], "task");
  expect((await saver.getTuple(parent))?.pendingWrites).toEqual([["task", "messages", "a"]]);
  const session = await openSession("late", { home, mode: "read" });
  const leaf = session.getEntry(session.leafId!) as { data?: { id: string } } | undefined;
  expect(leaf?.data?.id).toBe(newest.configurable?.["checkpoint_id"]);
  await session.close();
  await saver.close();
});

test("a message is removed once, and writes that are repeated are written once", async () => {
  const store = memoryStore();
  const saver = new EspalierSaver({ store });
  let config: Parameters<EspalierSaver["put"]>[0] = onThread("once");
  const [one, two] = ["one", "two"].map((id) => new HumanMessage({ id, content: id }));
  for (const [step, messages] of [[one, two], [two], [one], [two]].entries())
    config = await saver.put(config, checkpointOf(step, messages), metadata, { messages: step });
  for (let attempt = 0; attempt < 2; attempt++)
    await saver.putWrites(config, [["messages", two]], "task", "~__pregel_pull, agent");
  const session = await openSession("once", { store, mode: "read" });
  const types = session.getEntries().map(({ type }) => type);
  await session.close();
  await saver.close();
  expect(await contextOf("once", { store })).toEqual(["two"]);
  // The third step removes `two` and adds `one` again, and the fourth the reverse.
  expect(types.filter((type) => type === "context_edit")).toHaveLength(3);
  expect(types.filter((type) => type === "custom")).toHaveLength(5);
});

test("two forks of one checkpoint keep both values", async () => {
  const saver = new EspalierSaver({ store: memoryStore() });
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

test("a copied checkpoint has the values of the one it copies, and its messages in the session", async () => {
  const store = memoryStore();
  const saver = new EspalierSaver({ store });
  const graph = gardener(saver);
  await graph.invoke(ask("What grows?"), onThread("copy"));
  const { values, config } = await graph.getState(onThread("copy"));
  const copy = await graph.updateState(config, null, "__copy__");
  expect((await graph.getState(copy)).values).toEqual(values);
  expect(await contextOf("copy", { store })).toEqual(textsOf(values.messages));
  await saver.close();
});

test("an interrupted step is resumed from the session", async () => {
  const home = freshHome();
  const open = () => {
    const saver = new EspalierSaver({ home });
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("agent", async () => ({ messages: [answer(`You said ${interrupt("Which bed?")}.`)] }))
      .addEdge(START, "agent")
      .compile({ checkpointer: saver });
    return { saver, graph };
  };
  const first = open();
  await first.graph.invoke(ask("Dig."), onThread("bed"));
  await first.saver.close();
  const second = open();
  const { messages } = await second.graph.invoke(new Command({ resume: "the north one" }), onThread("bed"));
  await second.saver.close();
  expect(textsOf(messages)).toEqual(["Dig.", "You said the north one."]);
  expect(await contextOf("bed", { home })).toEqual(["Dig.", "You said the north one."]);
  const session = await openSession("bed", { home, mode: "read" });
  expect(titlesOf(session.getEntries())).toEqual(
    expect.arrayContaining([
      "agent writes interrupt",
      "input writes resume",
      "agent writes resume, messages",
    ]),
  );
  await session.close();
});

test("a subgraph is a branch: below the graph if it shares messages, otherwise with a separate root", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home });
  const expert = (name: string) =>
    new StateGraph(MessagesAnnotation)
      .addNode("think", async () => ({ messages: [answer(`${name} thinks.`)] }))
      .addEdge(START, "think")
      .compile({ checkpointer: true });
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("shares", expert("The sharer"))
    .addNode("apart", async () => {
      await expert("The stranger").invoke({ messages: [new HumanMessage({ id: "own", content: "Alone." })] });
      return {};
    })
    .addEdge(START, "shares")
    .addEdge("shares", "apart")
    .compile({ checkpointer: saver });
  await graph.invoke(ask("What grows?"), onThread("experts"));
  await saver.close();
  const session = await openSession("experts", { home, mode: "read" });
  const ends = session.branches().map(({ leafId }) => textsOf(session.contextAt(leafId).messages));
  const said = session
    .getEntries()
    .flatMap((entry) => (isMessage(entry, "user") ? messageText(entry.message) : []));
  await session.close();
  expect(said).toEqual(["What grows?", "Alone."]);
  expect(ends).toEqual(
    expect.arrayContaining([
      ["What grows?", "The sharer thinks."],
      ["Alone.", "The stranger thinks."],
    ]),
  );
});

test.each([1_000, 2])(
  "the messages of a delta channel are shown, with a snapshot after %i writes",
  async (snapshotFrequency) => {
    const home = freshHome();
    const saver = new EspalierSaver({ home });
    const options = { initialValueFactory: () => [], snapshotFrequency };
    const messages = () => new DeltaChannel(messagesDeltaReducer, options);
    const State = Annotation.Root({ messages });
    const graph = new StateGraph(State)
      .addNode("agent", async () => ({ messages: [answer(`Answer ${number}.`)] }))
      .addEdge(START, "agent")
      .compile({ checkpointer: saver });
    for (const question of ["One?", "Two?", "Three?"]) await graph.invoke(ask(question), onThread("delta"));
    const { values } = await graph.getState(onThread("delta"));
    await saver.close();
    expect(values.messages).toHaveLength(6);
    expect(await contextOf("delta", { home })).toEqual(textsOf(values.messages));
  },
);

/** What happens to a list of messages: ids and texts. */
const change = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ act: fc.constant("add" as const), text: fc.string({ minLength: 1 }) }),
  },
  fc.record({ act: fc.constant("insert" as const), at: fc.nat(9), text: fc.string({ minLength: 1 }) }),
  fc.record({ act: fc.constant("replace" as const), at: fc.nat(9), text: fc.string({ minLength: 1 }) }),
  fc.record({ act: fc.constant("remove" as const), at: fc.nat(9) }),
  fc.record({ act: fc.constant("fork" as const), at: fc.nat(9) }),
);

test("at every checkpoint, the session's context has the messages of the state, after any change of them", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 25 }), async (changes) => {
      const store = memoryStore();
      const saver = new EspalierSaver({ store, redact: false });
      const made: { config: ReturnType<typeof onThread>; messages: HumanMessage[] }[] = [];
      let at: (typeof made)[number] = { config: onThread("any"), messages: [] };
      for (const [step, one] of changes.entries()) {
        const messages = [...at.messages];
        const place = "at" in one ? one.at % Math.max(1, messages.length) : 0;
        const said = (id: string) => new HumanMessage({ id, content: "text" in one ? one.text : "" });
        if (one.act === "fork") {
          at = made[one.at % Math.max(1, made.length)] ?? at;
          continue;
        }
        if (one.act === "add") messages.push(said(`m${step}`));
        if (one.act === "insert") messages.splice(place, 0, said(`m${step}`));
        if (one.act === "replace" && messages[place]) messages[place] = said(messages[place].id!);
        if (one.act === "remove") messages.splice(place, 1);
        const checkpoint = checkpointOf(step, messages);
        const config = await saver.put(at.config, checkpoint, metadata, { messages: step });
        at = { config: config as ReturnType<typeof onThread>, messages };
        made.push(at);
      }
      const session = made.length > 0 ? await openSession("any", { store, mode: "read" }) : undefined;
      for (const { config, messages } of made) {
        const stored = await saver.get(config);
        expect(stored?.channel_values["messages"]).toEqual(messages);
        const id = stored!.id;
        const entry = session!
          .getEntries()
          .findLast((each) => (each as { data?: { id: string } }).data?.id === id);
        expect(textsOf(session!.contextAt(entry!.id).messages)).toEqual(messages.map(({ text }) => text));
      }
      await session?.close();
      await saver.close();
    }),
    { numRuns: 60 },
  );
});

test("a step writes only new data: the hundredth as much as the tenth", async () => {
  const home = freshHome();
  const saver = new EspalierSaver({ home });
  const notes = Annotation<Record<string, string>>({
    reducer: (a, b) => ({ ...a, ...b }),
    default: () => ({}),
  });
  const State = Annotation.Root({ ...MessagesAnnotation.spec, notes });
  const graph = new StateGraph(State)
    .addNode("agent", async ({ messages }) => ({
      messages: [answer("An answer of some length. ".repeat(20))],
      notes: { [`note ${messages.length % 3}`]: `${messages.length} `.repeat(500) },
    }))
    .addEdge(START, "agent")
    .compile({ checkpointer: saver });
  const sizes: number[] = [];
  for (let turn = 0; turn < 100; turn++) {
    await graph.invoke(ask(`Question ${turn}, which is longer than a word.`), onThread("growing"));
    const session = await openSession("growing", { home, mode: "read" });
    sizes.push(readFileSync(session.file).length);
    await session.close();
  }
  const { values } = await graph.getState(onThread("growing"));
  await saver.close();
  expect(values.messages).toHaveLength(200);
  const bytesOf = (turn: number) => sizes[turn]! - sizes[turn - 1]!;
  expect(bytesOf(99)).toBeLessThan(bytesOf(10) * 1.1);
});
