import { fileURLToPath } from "node:url";
import { compareBranches, formatCost, historyOf, statsOf } from "@espalier/engine/reading";
import { compaction, isMessage, type Usage } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { build } from "esbuild";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { billed, plant, soundAnswer, turn } from "./build-session.ts";

test("the reading functions run in a browser: no Node module is loaded", async () => {
  const { metafile } = await build({
    entryPoints: [fileURLToPath(import.meta.resolve("@espalier/engine/reading"))],
    bundle: true,
    write: false,
    metafile: true,
    platform: "browser",
    format: "esm",
    external: ["@anthropic-ai/sdk"],
    logLevel: "silent",
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports);
  expect(imports.filter(({ path }) => path !== "@anthropic-ai/sdk")).toEqual([]);
});

test("a cost looks like zero only when it is zero", () => {
  const costs = [0, 0.00003, 0.00005, 2e-7, 0.0001, 0.0042, 0.5, 1.5];
  expect(costs.map(formatCost)).toEqual([
    "$0.00",
    "$0.00003",
    "$0.00005",
    "$2e-7",
    "$0.0001",
    "$0.0042",
    "$0.5000",
    "$1.50",
  ]);
});

describe("the history of a session", () => {
  test("has entries that a compaction covers and entries on other branches, each marked", async () => {
    const { session } = await plant({ turns: 6 });
    const [first] = session.getBranch();
    await session.compact();
    const leafId = session.leafId!;
    await session.navigate(null);
    await session.appendMessages(turn("elsewhere"));
    await session.navigate(leafId);
    const covered = historyOf(session, "QUESTION 1");
    expect(covered).toMatchObject([{ entryId: first!.id, role: "user", covered: true, onPath: true }]);
    expect(covered[0]!.text).toMatch(/^Question 1\. x/);
    expect(historyOf(session, "question elsewhere")).toMatchObject([{ covered: false, onPath: false }]);
    // A tree by itself is read where opening it would stand, and all that match are told.
    expect(historyOf(session.tree, "question")).toHaveLength(7);
    expect(historyOf(session.tree, { query: "question", limit: 1 })).toMatchObject([{ onPath: false }]);
  });
});

describe("a comparison of two branches", () => {
  test("starts at their common entry: entries, messages, tokens, cost, files", async () => {
    const { session } = await plant({ turns: 1 });
    const shared = session.leafId!;
    await session.appendMessages([
      ...turn("a", { calls: 2 }),
      { role: "assistant", content: "dear", usage: billed(3) },
    ]);
    const a = session.leafId!;
    await session.navigate(shared);
    await session.appendMessages(turn("b"));
    const b = await session.label(session.leafId!, "b");
    const compared = compareBranches(session.tree, a, b);
    expect(compared.commonAncestorId).toBe(shared);
    expect(compared.a).toMatchObject({ leafId: a, messages: 7, cost: 3, files: ["a-1.ts", "a-2.ts"] });
    expect(compared.a.entryIds).toHaveLength(7);
    // A label is no end of a branch: the entry it hangs on is.
    expect(compared.b).toMatchObject({ leafId: session.leafId, messages: 4, cost: 0, files: ["b-1.ts"] });
    expect(compared.a.tokens).toBeGreaterThan(compared.b.tokens);
  });

  test("has nothing for an ancestor, or for the state before the first entry", async () => {
    const { session } = await plant({ turns: 2 });
    const [first] = session.getBranch();
    const up = compareBranches(session.tree, first!.id, session.leafId);
    expect(up).toMatchObject({
      commonAncestorId: first!.id,
      a: { leafId: first!.id, entryIds: [], tokens: 0 },
    });
    const none = compareBranches(session.tree, null, session.leafId);
    expect(none).toMatchObject({ commonAncestorId: null, a: { leafId: null, entryIds: [] } });
    expect(none.b.entryIds).toEqual(session.getBranch().map(({ id }) => id));
    expect(() => compareBranches(session.tree, "nowhere", null)).toThrow(/nowhere/);
  });
});

test("statistics and history accept a session, read at its leaf, or its tree", async () => {
  const { session } = await plant({ turns: 1 });
  const shared = session.leafId!;
  await session.appendMessages([{ role: "assistant", content: "dear", usage: billed(3) }]);
  const reader = { tree: session.tree, leafId: shared };
  expect(statsOf(session)).toEqual(statsOf(session.tree));
  expect(statsOf(reader)).toMatchObject({ total: { cost: 3 }, path: { cost: 0 } });
  expect(historyOf(session, "dear")).toEqual(historyOf(session.tree, "dear"));
  expect(historyOf(reader, "dear")).toMatchObject([{ onPath: false }]);
});

describe("the cost of a session", () => {
  test("is the sum of its parts if a host wrote a total of 0", async () => {
    const { session } = await plant({ turns: 1 });
    const usage = { input: 70, output: 20, cacheRead: 9, cacheWrite: 1, totalTokens: 0 };
    await session.appendMessages([{ role: "assistant", content: "unpriced", usage }]);
    expect(statsOf(session.tree).total).toMatchObject({ calls: 1, totalTokens: 100, cost: 0 });
  });

  test("is in total, on the path, by model and purpose, and has its compactions over time", async () => {
    const summarizer = scriptedSummarizer((request) => ({ text: soundAnswer(request), usage: billed(100) }));
    const { session } = await plant({ turns: 3, summarizer });
    const start = session.getBranch()[3]!.id;
    await session.appendMessages([{ role: "assistant", content: "dear", usage: billed(1_000) }]);
    const done = await session.compact();
    const stats = statsOf(session.tree);
    expect(stats.total).toMatchObject({ calls: 2, input: 1_100, output: 2, cost: 1_100 });
    expect(stats.path).toEqual(stats.total);
    expect(stats.kinds.map(({ kind, cost }) => [kind, cost])).toEqual([
      ["answer", 1_000],
      ["compaction", 100],
    ]);
    expect(stats.compactions).toMatchObject([
      {
        entryId: session.leafId,
        tokensBefore: done.eligible && done.tokensBefore,
        tokensAfter: done.eligible && done.tokensAfter,
        policy: "token-budget",
        cost: 100,
        onPath: true,
      },
    ]);
    expect(stats.compactions[0]!.removed).toBeGreaterThan(0);
    await session.navigate(start);
    expect(statsOf(session.tree)).toMatchObject({
      total: { cost: 1_100 },
      path: { calls: 0, cost: 0 },
      compactions: [{ onPath: false }],
    });
  });

  test("a value that is not a number costs nothing, in every sum", async () => {
    const { session } = await plant({ turns: 1 });
    const start = session.leafId;
    const cost = { total: "0.25" } as unknown as { total: number };
    await session.appendMessages([
      { role: "assistant", content: "odd", usage: { ...billed(1), cost } },
      { role: "assistant", content: "dear", usage: billed(3) },
    ]);
    const { id } = session.getBranch().at(-1)!;
    await session.append(
      compaction.of({
        summary: "So far.",
        firstKeptEntryId: id,
        tokensBefore: 1,
        usage: { ...billed(1), cost },
      }),
    );
    expect(compareBranches(session.tree, start, session.leafId).b.cost).toBe(3);
    expect(statsOf(session.tree)).toMatchObject({
      total: { calls: 3, cost: 3 },
      compactions: [{ cost: null }],
    });
  });

  test("property: the sums are those of the entries, and each branch has the sums of its path", async () => {
    const { session } = await plant({ turns: 1 });
    const act = fc.record({ to: fc.nat(), cost: fc.integer({ min: 1, max: 9 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 6 }), async (acts) => {
        for (const { to, cost } of acts) {
          const entries = session.getEntries().filter(({ type }) => type === "message");
          await session.navigate(entries[to % entries.length]!.id);
          await session.appendMessages([{ role: "assistant", content: "x", usage: billed(cost) }]);
        }
        const costOf = (entries: ReturnType<typeof session.getEntries>) =>
          entries.reduce((sum, entry) => {
            const usage: Usage | undefined = isMessage(entry, "assistant") ? entry.message.usage : undefined;
            return sum + (usage?.cost?.total ?? 0);
          }, 0);
        const stats = statsOf(session.tree, session.leafId);
        expect(stats.total.cost).toBe(costOf(session.getEntries()));
        expect(stats.path.cost).toBe(costOf(session.getBranch()));
        expect(stats.branches.map(({ leafId }) => leafId)).toEqual(
          session.branches().map(({ leafId }) => leafId),
        );
        for (const { leafId, cost } of stats.branches) expect(cost).toBe(costOf(session.getBranch(leafId)));
        for (const group of [stats.models, stats.kinds])
          expect(group.reduce((sum, { cost }) => sum + cost, 0)).toBe(stats.total.cost);
      }),
      { numRuns: 30 },
    );
  });
});
