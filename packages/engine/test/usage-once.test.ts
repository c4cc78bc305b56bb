import { type Policy, tokenBudget } from "@espalier/compaction";
import { type EspalierApi, openSession, type Session } from "@espalier/engine";
import { estimateTokens, isMessage, type Usage, usage } from "@espalier/session-tree";
import {
  emptyAnswer,
  failingAnswer,
  type ScriptedAnswer,
  scriptedSummarizer,
} from "@espalier/summarizer/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { billed, HISTORY_ANSWER, plant, soundAnswer, turn } from "./build-session.ts";

/** What all calls cost by these sessions, each entry counted once wherever it stands. */
function costOf(...sessions: Session[]): number {
  const costs = new Map<string, number>();
  for (const session of sessions) {
    for (const entry of session.getEntries()) {
      const usage = isMessage(entry, "assistant") ? entry.message.usage : (entry as { usage?: Usage }).usage;
      costs.set(entry.id, usage?.cost?.total ?? 0);
    }
  }
  return [...costs.values()].reduce((sum, cost) => sum + cost, 0);
}

/** A provider that writes down what it billed; every call costs another power of two, so that none can hide another. */
function meteredSummarizer(answer: (n: number) => Partial<ScriptedAnswer> | undefined = () => undefined) {
  let total = 0;
  const summarizer = scriptedSummarizer((request, n) => {
    const cost = 2 ** (n % 20);
    total += cost;
    return { text: soundAnswer(request), usage: billed(cost), ...answer(n) };
  });
  return { summarizer, total: () => total };
}

describe("every call to a model is counted once", () => {
  test("over compactions, branch summaries, merges, failed attempts and forks", async () => {
    const { summarizer, total } = meteredSummarizer((n) => {
      if (n === 2) return { text: "", stopReason: "stop" };
      if (n === 5) return { error: new Error("torn") };
      return undefined;
    });
    const { session, store } = await plant({ turns: 4, summarizer, fallback: false });
    await session.appendMessages([{ role: "assistant", content: "billed", usage: billed(1_000_000) }]);
    const path = session.getBranch();
    await session.compact();
    await session.appendMessages(turn("5"));
    await session.navigate(path[7]!.id, { summarize: true });
    const forks = [await session.fork(session.leafId!), await session.fork(path[3]!.id, { summarize: true })];
    await session.merge(path.at(-1)!.id).catch(() => undefined);
    await session.merge(path.at(-1)!.id);
    await session.compact({ settings: { keepRecentTokens: 60 } });
    const opened = await Promise.all(forks.map(({ file }) => openSession({ file }, { store, mode: "read" })));
    // The call that broke off was billed by nobody who could tell.
    expect(costOf(session, ...opened)).toBe(1_000_000 + total() - 2 ** 5);
    // Sums over the session alone lack what only a fork has, and nothing else.
    expect(costOf(...opened)).toBeLessThan(costOf(session, ...opened));
  });

  test("the cost of an extension is billed by its name, even if its summary is refused or cannot be written", async () => {
    const { summarizer, total } = meteredSummarizer();
    const spending = (api: EspalierApi) => {
      api.on("session_before_compact", () => ({ compaction: { summary: "Mine.", usage: billed(7) } }));
      api.on("session_before_fork", () => ({ summary: { summary: "Mine.", usage: billed(5) } }));
    };
    const policy: Policy = {
      ...tokenBudget,
      estimate: (message) => (JSON.stringify(message).includes("Mine.") ? 100_000 : estimateTokens(message)),
    };
    const { session } = await plant({ turns: 4, summarizer, extensions: [spending], policy });
    const [first] = session.getBranch();
    expect(await session.compact()).toMatchObject({ source: "scripted", usage: { input: total() } });
    const out = session.file;
    await expect(session.fork(first!.id, { summarize: true, out })).rejects.toMatchObject({ code: "exists" });
    expect(session.getEntries().filter((entry) => usage.is(entry))).toMatchObject([
      { kind: "compaction", provider: "spending", model: "spending", usage: { input: 7 } },
      { kind: "branch_summary", provider: "spending", model: "spending", usage: { input: 5 } },
    ]);
    expect(costOf(session)).toBe(total() + 7 + 5);
    await session.close();
  });

  test("property: for any failures, and any number of them", async () => {
    const outcome = fc.constantFrom(
      "sound",
      "empty",
      "cut-off",
      "unauthorized",
      "larger",
    ) as fc.Arbitrary<string>;
    const property = fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom("compact", "navigate", "merge"), outcome, fc.boolean()), {
        maxLength: 8,
      }),
      async (acts) => {
        let now = "sound";
        let total = 0;
        const summarizer = scriptedSummarizer((request) => {
          total += 7;
          const usage = billed(7);
          if (now === "empty") return emptyAnswer(usage);
          if (now === "cut-off") return { text: soundAnswer(request), stopReason: "length", usage };
          if (now === "unauthorized") return failingAnswer("unauthorized", usage);
          if (now === "larger") return { text: `${HISTORY_ANSWER}${soundAnswer(request).repeat(40)}`, usage };
          return { text: soundAnswer(request), usage };
        });
        const { session } = await plant({ turns: 3, summarizer });
        const [first] = session.getBranch();
        for (const [at, [act, outcome, fallback]] of acts.entries()) {
          now = outcome;
          await session.appendMessages(turn(`act ${at}`));
          const leafId = session.leafId!;
          const failed = () => undefined;
          if (act === "compact") await session.compact({ fallback }).catch(failed);
          else if (act === "navigate")
            await session.navigate(first!.id, { summarize: true, fallback }).catch(failed);
          else {
            await session.navigate(first!.id);
            await session.merge(leafId, { fallback }).catch(failed);
          }
        }
        expect(costOf(session)).toBe(total);
        await session.close();
      },
    );
    await fc.assert(property, { numRuns: 40 });
  });
});
