import { tokenBudget } from "@espalier/compaction";
import { createSession, type Extension, forecastAct, openSession, type Session } from "@espalier/engine";
import {
  type AssistantMessage,
  contextEdit,
  memoryStore,
  modelChange,
  type Usage,
} from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { plant, soundAnswer, words } from "./build-session.ts";

const MODEL = { provider: "anthropic", model: "claude-sonnet-4-5" } as const;

/** Turns of a thousand tokens each, counted by a provider that counts 1.2 for one of ours, and 500 for the prompt. */
async function converse(
  session: Session,
  turns: number,
  model: string = MODEL.model,
  prompt: string = words(1_000),
): Promise<void> {
  for (let turn = 1; turn <= turns; turn++) {
    await session.appendMessages([{ role: "user", content: prompt }]);
    const counted = Math.round(500 + 1.2 * session.context.tokens);
    const usage: Usage = { input: 3, output: 1, cacheRead: counted - 3, cacheWrite: 0 };
    const answer: Partial<AssistantMessage> = { ...MODEL, model, usage, stopReason: "stop" };
    await session.appendMessages([{ ...answer, role: "assistant", content: "So it is." }]);
  }
}

interface Heard {
  cause: string;
  entryId: string | null;
  tokens: number;
  cost: number | null;
}

/** A session whose extension hears of breaks, with a clock. */
async function listening() {
  const heard: Heard[] = [];
  const clock = { now: Date.now() };
  const extension: Extension = (api) => {
    api.on("cache_break", (event) => {
      heard.push({ ...event });
    });
  };
  const { session } = await plant({ turns: 0, extensions: [extension], now: () => clock.now });
  await converse(session, 8);
  const ask = async (system = "You tend a garden.") => {
    await session.appendMessages([{ role: "user", content: "And now?" }]);
    await session.prepareRequest({ system });
    return heard.splice(0);
  };
  return { session, ask, clock };
}

test("a request that continues normally reports no cache break to extensions", async () => {
  const { session, ask } = await listening();
  expect(await ask()).toEqual([]);
  await converse(session, 1);
  expect(await ask()).toEqual([]);
});

test("a break is reported before its request is sent, with cause, entry and price", async () => {
  const { session, ask } = await listening();
  const third = session.getBranch().filter(({ type }) => type === "message")[4]!;
  const [edit] = await session.append([contextEdit.of({ targetId: third.id, replacement: null })]);
  const [event, ...more] = await ask();
  expect(more).toEqual([]);
  expect(event).toMatchObject({ cause: "hide", entryId: edit!.id });
  // Six of the eight turns come behind what was hidden.
  expect(event!.tokens).toBeGreaterThan(6_500);
  expect(event!.tokens).toBeLessThan(8_000);
  expect(event!.cost).toBeCloseTo((event!.tokens * 3.45) / 1e6, 6);
});

test("breaks without a record in the file are reported too: another system prompt, and a pause", async () => {
  const { session, ask, clock } = await listening();
  await ask();
  await converse(session, 1);
  expect(await ask("You tend a garden. It is 09:41.")).toMatchObject([{ cause: "system-prompt" }]);
  await converse(session, 1);
  clock.now += 6 * 60_000;
  expect(await ask("You tend a garden. It is 09:41.")).toMatchObject([{ cause: "pause" }]);
});

test("other tools and another model are breaks too; the first request and a second one without an answer are none", async () => {
  const heard: unknown[] = [];
  const { session } = await plant({
    turns: 0,
    extensions: [
      (api) => void api.on("cache_break", ({ cause, entryId }) => void heard.push([cause, entryId])),
    ],
  });
  const ask = async (...names: string[]) => {
    await session.appendMessages([{ role: "user", content: "And now?" }]);
    const tools = names.map((name) => ({ name, description: "", parameters: { type: "object" } }));
    await session.prepareRequest({ tools });
    return heard.splice(0);
  };
  expect(await ask("look")).toEqual([]);
  await converse(session, 8);
  expect(await ask("look")).toEqual([]);
  expect(await ask("look", "dig")).toEqual([["tools", session.leafId]]);
  const [change] = await session.append([
    modelChange.of({ provider: "anthropic", modelId: "claude-opus-4-5" }),
  ]);
  expect(await ask("look", "dig")).toEqual([["model", change!.id]]);
});

test("the plan of a compaction has its cost for the prompt cache, and the number of calls that pay it back", async () => {
  const { session } = await plant({ turns: 0, compaction: { keepRecentTokens: 3_000 } });
  await converse(session, 20);
  const plan = session.planCompaction();
  if (!plan.eligible) throw new Error(plan.reason);
  const { cache } = plan;
  expect(cache!.anew).toBeCloseTo(1.2 * plan.tokensAfter, -1);
  expect(cache!.context).toBeCloseTo(500 + 1.2 * plan.tokensAfter, -1);
  expect(cache!.cost).toBeCloseTo((cache!.anew * (3.75 - 0.3)) / 1e6, 6);
  // Each call reads the difference less: 11.5 times the price of a read is paid for what is written.
  const saved = 1.2 * (session.context.tokens - plan.tokensAfter);
  expect(cache!.paysBackAfter).toBe(Math.ceil((cache!.anew * 11.5) / saved));
  const rows = session.comparePolicies();
  expect(rows.find(({ policy }) => policy === "token-budget")!.cache).toEqual(cache);
});

test("navigating back needs no cache write; navigating to another branch writes the part that is not shared", async () => {
  const { session } = await plant({ turns: 0 });
  await converse(session, 4);
  const fork = session.getBranch().filter(({ type }) => type === "message")[3]!.id;
  const there = session.leafId!;
  const before = structuredClone(session.context);
  await session.navigate(fork);
  expect(forecastAct(session, before)).toMatchObject({ anew: 0, cost: 0, paysBackAfter: 0 });
  await converse(session, 3, MODEL.model, words(1_000).toUpperCase());
  const branch = structuredClone(session.context);
  await session.navigate(there);
  const { anew } = forecastAct(session, branch);
  expect(anew).toBeGreaterThan(1.2 * 2_000);
  expect(anew).toBeLessThan(1.2 * 2_050);
});

test("equal beginnings of branches are shared, whatever their entries' times are", async () => {
  const { session } = await plant({ turns: 0 });
  await converse(session, 4);
  const fork = session.getBranch().filter(({ type }) => type === "message")[3]!.id;
  const there = session.leafId!;
  await session.navigate(fork);
  await new Promise((resolve) => setTimeout(resolve, 5));
  await converse(session, 3);
  const branch = structuredClone(session.context);
  await session.navigate(there);
  expect(forecastAct(session, branch)).toMatchObject({ anew: 0 });
});

test("a policy gets the price of the model: the session's own before the catalogue's", async () => {
  const seen: unknown[] = [];
  const policy: typeof tokenBudget = {
    ...tokenBudget,
    judge(situation) {
      seen.push(situation.prices);
      return tokenBudget.judge(situation);
    },
  };
  const own = { input: 1, output: 2, cacheRead: 0.5, cacheWrite: 9 };
  for (const prices of [undefined, { "anthropic/claude-sonnet-4-5": own }]) {
    const session = await createSession({ store: memoryStore(), policy, ...(prices ? { prices } : {}) });
    await converse(session, 1);
    await session.appendMessages([{ role: "user", content: "And now?" }]);
    await session.prepareRequest();
  }
  expect(seen).toContainEqual({ input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 });
  expect(seen.at(-1)).toEqual(own);
});

test("a forecast without a known price has only tokens", async () => {
  const { session } = await plant({ turns: 0, compaction: { keepRecentTokens: 3_000 } });
  await converse(session, 20, "a-model-of-one's-own");
  expect(session.planCompaction()).toMatchObject({ cache: { cost: null, paysBackAfter: null } });
});

test("a budget refuses in one sentence before the money is spent: for an answer, and for a summary", async () => {
  let asked = 0;
  const summarizer = scriptedSummarizer((request) => {
    asked++;
    return { text: soundAnswer(request) };
  });
  const model = { provider: "anthropic", modelId: "claude-sonnet-4-5" };
  const own = { ...summarizer, model };
  const { session } = await plant({
    turns: 0,
    maxCost: 1,
    summarizer: own,
    fallback: false,
    compaction: { keepRecentTokens: 3_000 },
  });
  await converse(session, 10);
  await session.prepareRequest();
  const usage = { input: 10_000, output: 1, cacheRead: 0, cacheWrite: 0, cost: { total: 0.999 } };
  await session.appendMessages([
    { ...MODEL, role: "assistant", content: "Dear.", usage, stopReason: "stop" },
  ]);
  await session.appendMessages([{ role: "user", content: "And now?" }]);
  const before = session.tree.length;
  await expect(session.prepareRequest()).rejects.toMatchObject({
    code: "over-budget",
    message: expect.stringMatching(
      /^This session has cost \$1\.0\d, and the next request costs at least \$0\.00\d\d; its budget \(maxCost\) is \$1\.00\./,
    ),
  });
  await expect(session.compact()).rejects.toThrow(/its budget \(maxCost\) is \$1\.00/);
  expect([asked, session.tree.length]).toEqual([0, before]);
  // What costs nothing goes on.
  expect(await session.compact({ fallback: true })).toMatchObject({ eligible: true, source: "extractive" });
});

test("a budget sends a request without a known price, and counts all branches of a session that is not loaded", async () => {
  const store = memoryStore();
  const ours = await createSession({ store });
  const usage: Usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0, cost: { total: 2 } };
  await ours.appendMessages([
    { role: "user", content: "Go on." },
    { ...MODEL, role: "assistant", content: "Dear.", usage, stopReason: "stop" },
  ]);
  await ours.navigate(null);
  await ours.append([modelChange.of({ provider: "own", modelId: "own" })]);
  await ours.say("And here?");
  await ours.close();
  const refused = await openSession(ours.id, { store, whole: false, maxCost: 1 });
  await expect(refused.prepareRequest()).rejects.toMatchObject({ code: "over-budget" });
  await refused.close();
  const session = await openSession(ours.id, { store, whole: false, maxCost: 3 });
  expect(await session.prepareRequest()).toMatchObject({ failure: null });
});

test("a budget counts the sessions of sub-agents, in the parent session and in their own", async () => {
  const store = memoryStore();
  const settings = { store, maxCost: 1, compaction: { keepRecentTokens: 3_000 } };
  const spend = async (session: Session, total: number) => {
    const usage: Usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0, cost: { total } };
    const answer = {
      ...MODEL,
      role: "assistant" as const,
      content: "Dear.",
      usage,
      stopReason: "stop" as const,
    };
    await session.appendMessages([{ role: "user", content: "Go on." }, answer]);
    await session.appendMessages([{ role: "user", content: "And now?" }]);
  };
  const boss = await createSession(settings);
  const start = (sessionId: string, kind: "subagent" | "fork") =>
    createSession({ ...settings, parent: { sessionId, entryId: null, kind } });
  const scout = await start(boss.id, "subagent");
  const helper = await start(scout.id, "subagent");
  const fork = await start(boss.id, "fork");
  await spend(boss, 0.2);
  await spend(scout, 0.3);
  await spend(helper, 0.4);
  // A fork is a session of its own.
  await spend(fork, 0.9);
  for (const session of [boss, scout, helper, fork]) await session.prepareRequest();
  await spend(helper, 0.2);
  await expect(boss.prepareRequest()).rejects.toMatchObject({
    code: "over-budget",
    message: expect.stringMatching(
      /^This session has cost \$1\.10 \(\$0\.9000 by its sub-agents\), and the next request costs at least/,
    ),
  });
  await expect(scout.prepareRequest()).rejects.toThrow(
    /^The session that started this sub-agent has, with its sub-agents, cost \$1\.10, and the next request/,
  );
  await fork.prepareRequest();
  for (const session of [boss, scout, helper, fork]) await session.close();
});
