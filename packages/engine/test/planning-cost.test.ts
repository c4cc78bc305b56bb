import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compactSession, openSession, rulesOf } from "@espalier/engine";
import { type SessionStore, Tree } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { plant, soundAnswer, turn, words } from "./build-session.ts";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, "long.jsonl");

const ENTRIES = 20_000;

/** A session so long that reading it whole shows, with a compaction of ours near its end. */
beforeAll(async () => {
  const lines = [
    JSON.stringify({
      type: "session",
      version: 3,
      id: "long",
      timestamp: "2026-01-01T00:00:00.000Z",
      cwd: "/",
    }),
  ];
  let parentId: string | null = null;
  const model = { provider: "anthropic", model: "claude-test", stopReason: "stop" };
  for (let at = 0; at < ENTRIES; at++) {
    const id = `e${String(at).padStart(7, "0")}`;
    const text = `Message ${at}. ${"lorem ipsum ".repeat(10)}`;
    const message =
      at % 2 === 0
        ? { role: "user", content: text }
        : { role: "assistant", content: [{ type: "text", text }], ...model };
    lines.push(
      JSON.stringify({
        type: "message",
        id,
        parentId,
        timestamp: "2026-01-01T00:00:00.000Z",
        message: { ...message, timestamp: 0 },
      }),
    );
    parentId = id;
  }
  writeFileSync(file, `${lines.join("\n")}\n`);
  const session = await openSession({ file }, { home: folder, compaction: { keepRecentTokens: 1_000 } });
  const first = await session.compact({ summarizer: scriptedSummarizer(soundAnswer) });
  if (!first.eligible) throw new Error(first.reason);
  await session.close();
});

test("after the first compaction, a long session is compacted with reads of its end only", async () => {
  const session = await openSession({ file }, { home: folder, compaction: { keepRecentTokens: 1_000 } });
  const whole = vi.spyOn(session, "tree", "get");
  await session.appendMessages([...turn("1", { size: 500 }), ...turn("2", { size: 500 })]);
  const plan = session.planCompaction();
  if (!plan.eligible) throw new Error(plan.reason);
  expect(plan.blocks.goal).toMatch(/^Message 0\. /);
  expect(plan.historyIds.length).toBeLessThan(60);
  expect(await session.compact()).toMatchObject({ eligible: true });
  expect(session.context.messages.length).toBeLessThan(20);
  // Nothing asked for the whole session; this does.
  expect(whole).not.toHaveBeenCalled();
  expect(session.tree.length).toBeGreaterThan(ENTRIES);
  expect(whole).toHaveBeenCalled();
  await session.close();
});

test("the first one reads the path once", async () => {
  const session = await openSession(
    { file },
    {
      home: folder,
      leafId: `e${String(ENTRIES - 1).padStart(7, "0")}`,
    },
  );
  const read = vi.spyOn(Tree.prototype, "entryAt");
  const plan = session.planCompaction();
  const reads = read.mock.calls.length;
  read.mockRestore();
  expect(plan).toMatchObject({ eligible: true });
  // The context has read it already; what looks for goals and pins may walk it once more.
  expect(reads).toBeLessThanOrEqual(ENTRIES);
  await session.close();
});

test("after a compaction without recorded rules, only the first plan reads the path above it", async () => {
  const { session } = await plant({ turns: 6 });
  const say = (content: string) => session.appendMessages([{ role: "user", content }, ...turn("7").slice(1)]);
  await say("never push to main");
  const { id: dropped } = (await say("Always answer in German."))[0]!;
  const { id: kept } = (await say("So?"))[0]!;
  await session.hide(dropped);
  await session.appendCompaction("By hand.", kept, 1);
  await say("no new dependencies, please");
  session.planCompaction();
  const whole = vi.spyOn(session, "getBranch");
  session.planCompaction();
  expect(whole).not.toHaveBeenCalled();
  const told = () => rulesOf(session).map(({ text }) => text);
  expect(told()).toEqual(["never push to main", "no new dependencies, please"]);
  // The first undo takes back the prompt, the second one a drop above the compaction.
  await session.undo();
  await session.undo();
  expect(told()).toEqual(["never push to main", "Always answer in German"]);
  whole.mockRestore();
  await session.navigate(kept);
  expect(told()).toEqual(["never push to main", "Always answer in German"]);
  await session.close();
});

test("a fork and a navigation without handlers build no context, which takes long without compactions", async () => {
  const { session } = await plant({ turns: 6 });
  const built = vi.spyOn(session, "context", "get");
  await session.fork(session.leafId!);
  await session.navigate(session.tree.idAt(2));
  expect(built).not.toHaveBeenCalled();
  await session.close();
});

/** A store whose logs are somewhere else: nothing but the end of a path is within reach until they are loaded. */
function distantStore(near: SessionStore): { store: SessionStore; loads: () => number } {
  let loads = 0;
  const open: SessionStore["open"] = async (ref, mode) => {
    let isLoaded = false;
    return new Proxy(await near.open(ref, mode), {
      get(log, key) {
        if (key === "view") return isLoaded ? log.view : undefined;
        if (key === "load") {
          isLoaded = true;
          loads++;
        }
        const value: unknown = Reflect.get(log, key, log);
        return typeof value === "function" ? value.bind(log) : value;
      },
    });
  };
  return { store: { ...near, open }, loads: () => loads };
}

test("a policy that counts from the root loads the whole log, for every caller that selects it", async () => {
  const { session, store: near } = await plant({ turns: 6 });
  await session.compact({ summarizer: scriptedSummarizer(soundAnswer) });
  await session.appendMessages([...turn("7"), ...turn("8")]);
  await session.close();
  const { store, loads } = distantStore(near);
  const summarizer = scriptedSummarizer(soundAnswer);
  const policySettings = { tailKeepSize: 4, contextSize: 8 };
  const ours = await openSession({ file: session.file }, { store, summarizer, policySettings });
  expect(await ours.compact({ policy: "sliding-window" })).toMatchObject({ eligible: true });
  expect(loads()).toBe(1);
  expect(ours.getEntry(ours.leafId!)).toMatchObject({ details: { lastConsolidated: 28 } });
  await ours.appendMessages(turn("9"));
  await ours.close();
  const again = await openSession({ file: session.file }, { store, summarizer });
  expect(await compactSession(again, { keepLast: 4 })).toMatchObject({ msgCount: 4 });
  await again.close();
});

test("a prompt with a rule loads nothing, also when it replaces the rule of an earlier prompt", async () => {
  const { session, store: near } = await plant({ turns: 6 });
  await session.compact({ summarizer: scriptedSummarizer(soundAnswer) });
  await session.close();
  const { store, loads } = distantStore(near);
  const ours = await openSession({ file: session.file }, { store, whole: false });
  for (const content of ["Answer in German.", "From now on, answer in French.", "never push to main"])
    await ours.appendMessages([{ role: "user", content }, ...turn("7").slice(1)]);
  expect(rulesOf(ours).map(({ text }) => text)).toEqual([
    "From now on, answer in French",
    "never push to main",
  ]);
  expect(loads()).toBe(0);
  await ours.close();
});

test("a remote log is loaded only if the end of the path is not enough", async () => {
  const { session, store: near } = await plant({ turns: 6 });
  await session.compact({ summarizer: scriptedSummarizer(soundAnswer) });
  await session.appendMessages([...turn("7"), ...turn("8")]);
  await session.close();
  const { store, loads } = distantStore(near);
  const options = {
    store,
    whole: false,
    compaction: { keepRecentTokens: 160 },
    summarizer: scriptedSummarizer(soundAnswer),
  };
  const ours = await openSession({ file: session.file }, options);
  expect(await ours.compact()).toMatchObject({ eligible: true });
  expect(loads()).toBe(0);
  // A summary of somebody else tells neither goal nor newest instruction.
  await ours.appendCompaction("By hand.", ours.leafId!, 1);
  await ours.appendMessages([
    { role: "assistant", content: words(200) },
    { role: "assistant", content: words(200) },
  ]);
  await ours.close();
  const foreign = await openSession({ file: session.file }, options);
  expect(await foreign.compact()).toMatchObject({ summary: expect.stringContaining("<goal>\nQuestion 1. ") });
  expect(loads()).toBe(1);
  await foreign.close();
});
