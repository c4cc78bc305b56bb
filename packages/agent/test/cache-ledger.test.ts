import { forecastAct } from "@espalier/engine";
import { cacheLedger } from "@espalier/engine/reading";
import { isMessage } from "@espalier/session-tree";
import { type ReceivedRequest, type ReplyBlock, textReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { entriesOf, SUMMARY, server, stage } from "./stage.ts";

/** Numbers from 0 to `below`, the same for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

interface Block {
  cache_control?: unknown;
}
type Message = { role: string; content: Block[] };
const messagesOf = ({ body }: ReceivedRequest) => body["messages"] as Message[];
const isMarked = (block: Block | undefined) => block?.cache_control !== undefined;
const withoutMarks = (value: unknown) =>
  JSON.stringify(value, (key, inner) => (key === "cache_control" ? undefined : inner));

/** The turns of the user, with the positions of those whose last block is marked. */
function marksOf(request: ReceivedRequest) {
  const messages = messagesOf(request);
  const turns = messages.flatMap(({ role }, at) => (role === "user" ? [at] : []));
  const marked = turns.filter((at) => isMarked(messages[at]!.content.at(-1)));
  const all = messages.flatMap(({ content }) => content).filter(isMarked).length;
  const head = [request.body["system"], request.body["tools"]].flat() as Block[];
  return { turns, marked, all, head: head.filter(isMarked).length };
}

/** The blocks up to the last mark, in JSON and without the marks, which are no part of what is cached. */
function markedPrefix(request: ReceivedRequest): string[] {
  const blocks = messagesOf(request).flatMap(({ role, content }) =>
    content.map((block) => ({ isMarked: isMarked(block), text: withoutMarks([role, block]) })),
  );
  return blocks.slice(0, blocks.findLastIndex((block) => block.isMarked) + 1).map(({ text }) => text);
}

test.each([1, 2])(
  "two hundred turns without edits never break the cache: each marked prefix is the beginning of the next (seed %i)",
  async (seed) => {
    const random = randomOf(seed);
    let calls = 0;
    const { url, requests, failures } = await server({
      reply: () => {
        const words = `Answer ${random(1e9)}: ä € 🌱 ${"Pears. ".repeat(random(40))}`;
        const thinking = {
          type: "thinking",
          thinking: `I look (${random(1e9)}).`,
          signature: "sig==",
        } as const;
        const thought: ReplyBlock[] = random(2) ? [thinking] : [];
        if (random(3) > 0) return { kind: "message", content: [...thought, { type: "text", text: words }] };
        const blocks: ReplyBlock[] = Array.from({ length: 1 + random(3) }, () => ({
          type: "tool_use",
          id: `toolu_${++calls}`,
          name: random(4) ? "read_file" : "no_such_tool",
          input: { path: random(3) ? "garden/notes.txt" : "garden/none.txt" },
        }));
        return { kind: "message", content: [...thought, ...blocks] };
      },
    });
    const { agent, session } = await stage({ url, contextWindow: 1_000_000 });
    for (let turn = 1; turn <= 200; turn++) await agent.run(`Turn ${turn}: ${"how? ".repeat(random(60))}`);

    expect(failures).toEqual([]);
    expect(requests.flatMap(({ problems }) => problems)).toEqual([]);
    const { calls: ledger, breaks } = cacheLedger(session.tree);
    expect(breaks).toEqual([]);
    expect(ledger).toHaveLength(requests.length);
    expect(requests.length).toBeGreaterThan(250);
    expect(ledger.filter(({ difference }) => difference !== null)).toEqual([]);
    // The provider read all that it had counted before.
    for (const { before, read } of ledger.slice(1)) expect(read).toBe(before);
    for (const [at, request] of requests.entries()) {
      const { turns, marked, all, head } = marksOf(request);
      // The end of system prompt and tools, the turn that stays, and the last one.
      expect([marked, all, head]).toEqual([turns.slice(-2), Math.min(2, turns.length), 1]);
      const known = at === 0 ? [] : markedPrefix(requests[at - 1]!);
      expect(markedPrefix(request).slice(0, known.length)).toEqual(known);
    }
  },
  300_000,
);

test("a break of the agent's own cache is billed like in the ledger: after an edit, after a compaction", async () => {
  const { url } = await server({ reply: () => textReply(`So it is. ${"Pears. ".repeat(100)}`) });
  const { agent, session } = await stage({ url, open: { compaction: { keepRecentTokens: 1_500 } } });
  for (let turn = 1; turn <= 20; turn++) await agent.run(`Turn ${turn}: ${"how? ".repeat(200)}`);
  const { id } = session.getBranch().find(({ type }) => type === "message")!;
  await session.hide(id);
  await agent.run("And now?");
  const { breaks } = cacheLedger(session.tree);
  expect(breaks).toMatchObject([{ cause: "hide", call: session.leafId, cost: expect.any(Number) }]);
  expect(breaks[0]!.cost).toBeGreaterThan(0);
});

test("the unchanged part is read from the cache after an edit: a mark is at the first difference from the previous request", async () => {
  const words = "The pears are ripe. ".repeat(120);
  const { url, requests } = await server({ reply: () => textReply(words) });
  const { agent, session } = await stage({ url, contextWindow: 1_000_000 });
  for (let turn = 1; turn <= 40; turn++) await agent.run(`Turn ${turn}: ${words}`);
  const twentieth = session.getBranch().filter((entry) => isMessage(entry, "user"))[19]!;
  await session.hide(twentieth.id);
  await agent.run("And now?");
  const [edited] = cacheLedger(session.tree).breaks;
  const call = cacheLedger(session.tree).calls.find(({ entryId }) => entryId === edited!.call)!;
  // Nineteen turns of forty stay: the provider looks back over twenty blocks only, so this takes a mark.
  expect(call.read / call.before!).toBeGreaterThan(0.45);
  expect(marksOf(requests.at(-1)!)).toMatchObject({ all: 2, head: 1 });
}, 120_000);

test("a forecast is within two percent of the bill of a provider with a prefix cache", async () => {
  const words = "The pears are ripe. ".repeat(120);
  const { url } = await server({
    reply: ({ body }) =>
      textReply(JSON.stringify(body["messages"]).includes("asks for a summary") ? SUMMARY : words),
  });
  const { agent, session } = await stage({ url, open: { compaction: { keepRecentTokens: 12_000 } } });
  for (let turn = 1; turn <= 40; turn++) await agent.run(`Turn ${turn}: ${words}`);
  const written = () => {
    const answer = entriesOf(session.file).findLast((entry) => isMessage(entry, "assistant"));
    if (!answer || !isMessage(answer, "assistant") || !answer.message.usage) throw new Error("no answer");
    return answer.message.usage.cacheWrite + answer.message.usage.input;
  };
  const differenceOf = (forecast: number) => Math.abs(written() - forecast) / written();

  // A branch: back to the tenth turn, on for five, and over to the old end again.
  const there = session.leafId!;
  const tenth = session.getBranch().filter((entry) => isMessage(entry, "assistant"))[9]!.id;
  await session.navigate(tenth);
  for (let turn = 11; turn <= 15; turn++) await agent.run(`Otherwise ${turn}: ${words}`);
  const branch = structuredClone(session.context);
  await session.navigate(there);
  const { anew } = forecastAct(session, branch);
  expect(anew).toBeGreaterThan(20_000);

  const third = session.getBranch().filter((entry) => isMessage(entry, "user"))[2]!;
  const before = structuredClone(session.context);
  await session.hide(third.id);
  const hidden = forecastAct(session, before);
  await agent.run("So?");
  expect(differenceOf(hidden.anew)).toBeLessThan(0.02);

  const plan = session.planCompaction();
  if (!plan.eligible) throw new Error(plan.reason);
  const large = structuredClone(session.context);
  await agent.forceCompact();
  const compacted = forecastAct(session, large);
  await agent.run("So?");
  expect(differenceOf(compacted.anew)).toBeLessThan(0.02);
  expect(Math.abs(plan.cache!.anew - compacted.anew) / compacted.anew).toBeLessThan(0.2);
}, 120_000);
