import { slidingWindowState } from "@espalier/compaction/policies";
import { type CreateOptions, createSession, openSession, type Session } from "@espalier/engine";
import { compaction, memoryStore } from "@espalier/session-tree";
import { failingAnswer, hangingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { billed } from "./build-session.ts";
import { type HeldSummarizer, heldSummarizer, newFile, say, settled, stage, until } from "./policy-stage.ts";

const compactionsOf = (session: Session) => session.getBranch().filter((entry) => compaction.is(entry));
const messagesOf = (session: Session) => session.getBranch().filter(({ type }) => type === "message").length;

describe("the schedule of runs", () => {
  test("has runs at messages 52 and 64 for tail 40 and window 12", async () => {
    const session = await stage({ policy: "sliding-window" });
    const runs: number[] = [];
    for (let at = 0; at < 80; at++) {
      await say(session, 1, at);
      await settled(session);
      if (compactionsOf(session).length > runs.length) runs.push(messagesOf(session));
    }
    expect(runs).toEqual([52, 64, 76]);
    expect(
      compactionsOf(session).map(({ details }) => (details as { lastConsolidated: number }).lastConsolidated),
    ).toEqual([12, 24, 36]);
    expect(slidingWindowState(session)).toMatchObject({ lastConsolidated: 36, isConsolidating: false });
    await session.close();
  });

  test("includes a session with only user messages", async () => {
    const session = await stage({
      policy: "sliding-window",
      policySettings: { tailKeepSize: 4, contextSize: 8, compressionWindowSize: 2 },
    });
    for (let at = 0; at < 14; at++) {
      await session.appendMessages([
        { role: "user", content: at === 0 ? "hi" : `${at} ${"x".repeat(4_000)}` },
      ]);
      await settled(session);
    }
    expect(compactionsOf(session)).toHaveLength(5);
    await session.close();
  });

  test("has no runs with autoCompact off, and a command still compacts", async () => {
    const session = await stage({ policy: "sliding-window", compaction: { autoCompact: false } });
    await say(session, 60);
    expect(compactionsOf(session)).toHaveLength(0);
    expect(await session.compact()).toMatchObject({ eligible: true, messagesRemoved: 20 });
    expect(slidingWindowState(session).lastConsolidated).toBe(20);
    await session.close();
  });
});

describe("one run at a time", () => {
  const tight = { tailKeepSize: 4, contextSize: 8, compressionWindowSize: 2 };
  const tightStage = (summarizer: HeldSummarizer, options: CreateOptions = {}) =>
    stage({ policy: "sliding-window", policySettings: tight, summarizer, fallback: false, ...options });

  test("a run that becomes due during another one is remembered, and evaluated at its end", async () => {
    const summarizer = heldSummarizer();
    const session = await tightStage(summarizer);
    await say(session, 6);
    await settled(session, summarizer);
    expect(slidingWindowState(session)).toMatchObject({ isConsolidating: true, pendingConsolidation: false });
    await say(session, 4, 6);
    expect(slidingWindowState(session)).toMatchObject({ pendingConsolidation: true, lastConsolidated: 0 });
    expect(summarizer.requests).toHaveLength(1);
    summarizer.answer();
    await until(() => summarizer.requests.length === 2);
    expect(slidingWindowState(session)).toMatchObject({ pendingConsolidation: false, lastConsolidated: 2 });
    summarizer.answer();
    await settled(session, summarizer);
    expect(slidingWindowState(session)).toMatchObject({ lastConsolidated: 6, isConsolidating: false });
    expect(summarizer.requests).toHaveLength(2);
    expect(summarizer.requests[1]!.previousSummary).toContain("## Goal");
    await session.close();
  });

  test("a failed run changes nothing, is reported, and honours the pending one", async () => {
    const summarizer = heldSummarizer();
    const errors: string[] = [];
    const session = await tightStage(summarizer, {
      log: { warn: () => {}, error: (message) => void errors.push(message) },
    });
    await say(session, 6);
    await settled(session, summarizer);
    await say(session, 1, 6);
    summarizer.fail();
    await until(() => summarizer.requests.length === 2);
    expect(slidingWindowState(session)).toMatchObject({ lastConsolidated: 0, lastConsolidatedAt: null });
    expect(errors).toEqual([expect.stringMatching(/^The session was not compacted, and is unchanged/)]);
    summarizer.fail();
    await settled(session, summarizer);
    expect(summarizer.requests).toHaveLength(2);
    expect(compactionsOf(session)).toHaveLength(0);
    await session.close();
  });

  test("a failed run that was billed is not repeated before the next message", async () => {
    const failing = failingAnswer("unauthorized", billed(10));
    const summarizer = scriptedSummarizer((_, n) => (n > 2 ? hangingAnswer() : failing));
    const session = await stage({
      policy: "sliding-window",
      policySettings: tight,
      summarizer,
      fallback: false,
    });
    await say(session, 6);
    await until(() => !session.isConsolidating || summarizer.requests.length > 1);
    expect(session.getEntries().at(-1)).toMatchObject({ type: "usage", usage: { input: 10 } });
    expect(summarizer.requests).toHaveLength(1);
    await say(session, 1, 6);
    await until(() => summarizer.requests.length > 1);
    await session.close();
    expect(summarizer.requests).toHaveLength(2);
  });

  test("during a run the conversation continues, and a request has at most contextSize messages", async () => {
    const summarizer = heldSummarizer();
    const session = await tightStage(summarizer);
    await say(session, 20);
    const { context } = await session.prepareRequest();
    expect(context.messages).toEqual(session.context.messages.slice(-8));
    expect(context.sources).toEqual(session.context.sources.slice(-8));
    expect(session.context.messages).toHaveLength(20);
    summarizer.fail();
    await until(() => summarizer.requests.length === 2);
    summarizer.fail();
    await session.close();
  });

  test("closing waits for the run, and starts no other", async () => {
    const summarizer = heldSummarizer();
    const session = await tightStage(summarizer);
    await say(session, 6);
    await settled(session, summarizer);
    await say(session, 4, 6);
    const closing = session.close();
    summarizer.answer();
    await closing;
    expect(summarizer.requests).toHaveLength(1);
    const reopened = await openSession({ file: session.file }, { mode: "read" });
    expect(slidingWindowState(reopened).lastConsolidated).toBe(2);
  });
});

test("position and time survive a restart, and the schedule continues", async () => {
  const file = newFile();
  let clock = Date.UTC(2026, 0, 1);
  const options = {
    policy: "sliding-window" as const,
    policySettings: { tailKeepSize: 4, contextSize: 8, compressionWindowSize: 3, compressionCooldownSec: 60 },
    now: () => clock,
  };
  const first = await createSession({ file, ...options });
  await say(first, 7);
  await settled(first);
  const state = slidingWindowState(first);
  expect(state).toEqual({
    lastConsolidated: 3,
    lastConsolidatedAt: "2026-01-01T00:00:00.000Z",
    isConsolidating: false,
    pendingConsolidation: false,
  });
  await first.close();

  const second = await openSession({ file }, options);
  expect(slidingWindowState(second)).toEqual(state);
  clock += 59_000;
  await say(second, 1, 7);
  await settled(second);
  expect(slidingWindowState(second).lastConsolidated).toBe(3);
  clock += 1_000;
  await say(second, 1, 8);
  await settled(second);
  expect(slidingWindowState(second)).toMatchObject({
    lastConsolidated: 5,
    lastConsolidatedAt: "2026-01-01T00:01:00.000Z",
  });
  await second.close();
});

test("before the first run the cooldown counts from the session's header", async () => {
  const session = await stage({ policy: "sliding-window", now: () => Date.now() + 900_000 });
  await say(session, 41);
  await settled(session);
  // One message alone is no smaller than its summary; two are.
  await say(session, 2, 41);
  await settled(session);
  expect(slidingWindowState(session).lastConsolidated).toBeGreaterThan(0);
  await session.close();
});

interface Numbers {
  tail: number;
  window: number;
  hardLimit: number;
  cooldown: number;
}

/** The document's text, as thirty lines of code: what arrives, how time goes, how runs end. */
class Reference {
  total = 0;
  last = 0;
  lastAt: number;
  end: number | null = null;
  pending = false;
  runs = 0;
  readonly #numbers: Numbers;
  constructor(numbers: Numbers, started: number) {
    this.#numbers = numbers;
    this.lastAt = started;
  }
  arrive(now: number): void {
    this.total++;
    this.judge(now);
  }
  judge(now: number): void {
    const { tail, window, hardLimit, cooldown } = this.#numbers;
    const delta = this.total - tail - this.last;
    if (delta <= 0) return;
    if (delta < window && delta < hardLimit && now - this.lastAt < cooldown * 1_000) return;
    if (this.end !== null) this.pending = true;
    else {
      this.end = this.total - tail;
      this.runs++;
    }
  }
  finish(succeeds: boolean, now: number): void {
    if (succeeds) [this.last, this.lastAt] = [this.end!, now];
    this.end = null;
    if (!this.pending) return;
    this.pending = false;
    this.judge(now);
  }
}

const numbers = fc.record({
  tail: fc.integer({ min: 1, max: 6 }),
  window: fc.integer({ min: 1, max: 6 }),
  hardLimit: fc.integer({ min: 1, max: 8 }),
  cooldown: fc.integer({ min: 0, max: 100 }),
});
const step = fc.oneof(
  { weight: 5, arbitrary: fc.constant({ does: "arrive" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({ does: fc.constant("wait" as const), seconds: fc.integer({ min: -50, max: 150 }) }),
  },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("finish" as const), succeeds: fc.boolean() }) },
);

test("the policy matches the document, over arrivals, clock jumps, slow and failing summarizers", async () => {
  await fc.assert(
    fc.asyncProperty(numbers, fc.array(step, { maxLength: 40 }), async (given, steps) => {
      let clock = Date.now();
      const summarizer = heldSummarizer();
      const session = await createSession({
        store: memoryStore(),
        policy: "sliding-window",
        policySettings: {
          contextSize: given.tail + 1,
          tailKeepSize: given.tail,
          compressionWindowSize: given.window,
          compressionHardLimit: given.hardLimit,
          compressionCooldownSec: given.cooldown,
        },
        summarizer,
        fallback: false,
        log: { warn: () => {}, error: () => {} },
        now: () => clock,
      });
      const reference = new Reference(given, Date.parse(session.header!.timestamp));
      let arrived = 0;
      for (const each of [...Array.from({ length: 2 }, () => ({ does: "arrive" as const })), ...steps]) {
        if (each.does === "wait") clock += each.seconds * 1_000;
        else if (each.does === "arrive") {
          await arrive(session, arrived++);
          reference.arrive(clock);
        } else if (summarizer.waiting > 0) {
          if (each.succeeds) summarizer.answer();
          else summarizer.fail();
          const asked = summarizer.requests.length;
          await until(() => !session.isConsolidating || summarizer.requests.length > asked);
          reference.finish(each.succeeds, clock);
        }
        await settled(session, summarizer);
        compare(session, summarizer, reference);
      }
      while (summarizer.waiting > 0) {
        summarizer.fail();
        await settled(session, summarizer);
      }
      await session.close();
    }),
    { numRuns: 60 },
  );
});

/** Large answers, and no prompt that would be repeated beside the summary: every run is worth it. */
async function arrive(session: Session, at: number): Promise<void> {
  await session.appendMessages([{ role: "assistant", content: `${at}: ${"lorem ipsum ".repeat(200)}` }]);
}

function compare(session: Session, summarizer: HeldSummarizer, reference: Reference): void {
  expect(slidingWindowState(session)).toEqual({
    lastConsolidated: reference.last,
    lastConsolidatedAt: reference.last === 0 ? null : new Date(reference.lastAt).toISOString(),
    isConsolidating: reference.end !== null,
    pendingConsolidation: reference.pending,
  });
  expect(summarizer.requests).toHaveLength(reference.runs);
}
