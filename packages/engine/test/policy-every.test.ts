import { thresholdOf } from "@espalier/compaction";
import { slidingWindowState } from "@espalier/compaction/policies";
import {
  openSession,
  POLICY_NAMES,
  type PolicyName,
  type Session,
  type SessionOptions,
} from "@espalier/engine";
import { CHARS_PER_TOKEN, estimateTotal } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { soundAnswer } from "./build-session.ts";
import { settled, stage } from "./policy-stage.ts";

/** Settings of the policies under which none of their own rules is ever due here. */
const NEVER_DUE: SessionOptions["policySettings"] = {
  maxMessages: 1_000,
  tailKeepSize: 900,
  contextSize: 1_000,
  offloadThreshold: 1_000_000,
  maxContextTokens: 1_000_000,
};

const summarizer = () => scriptedSummarizer((request) => soundAnswer(request));

/** A user and a model in turn, each of these messages of so many tokens. */
async function talk(session: Session, count: number, tokens: number, usage?: (at: number) => number) {
  for (let at = 0; at < count; at++) {
    const reported = { input: usage?.(at) ?? 0, output: 0, cacheRead: 0, cacheWrite: 0 };
    const content = `${at}: ${"word ".repeat((tokens * CHARS_PER_TOKEN) / 5)}`;
    await session.appendMessages([
      at % 2
        ? { role: "assistant", content, ...(usage ? { usage: reported } : {}) }
        : { role: "user", content },
    ]);
    await settled(session);
  }
}

describe.each(POLICY_NAMES)("under %s", (policy: PolicyName) => {
  const compaction = { contextWindow: 20_000, reserveTokens: 8_000, keepRecentTokens: 4_000 };

  test("a request leaves the reserve for its answer, for any rule of the policy", async () => {
    const policySettings = NEVER_DUE;
    const session = await stage({ policy, policySettings, compaction, summarizer: summarizer() });
    await talk(session, 23, 500);
    expect(await session.prepareRequest()).toMatchObject({ compaction: null, failure: null });
    await talk(session, 2, 500);
    const { compaction: made, context, failure } = await session.prepareRequest();
    expect({ made: made?.eligible, failure }).toEqual({ made: true, failure: null });
    expect(estimateTotal(context.messages)).toBeLessThanOrEqual(thresholdOf(compaction));
    expect((await session.prepareRequest()).compaction).toBeNull();
    await session.close();
  });

  test("system prompt and tools count against the reserve, and so does the provider's count", async () => {
    const policySettings = NEVER_DUE;
    const options = { policy, policySettings, compaction, summarizer: summarizer() };
    const session = await stage(options);
    await talk(session, 20, 500);
    const { compaction: made } = await session.prepareRequest({ overheadTokens: 3_000 });
    expect(made?.eligible).toBe(true);
    await session.close();
    const reported = await stage(options);
    await talk(reported, 16, 500, (at) => at * 1_000);
    expect((await reported.prepareRequest()).compaction?.eligible).toBe(true);
    await reported.close();
  });

  test("nothing is compacted for the reserve if autoCompact is off", async () => {
    const options = { policy, policySettings: NEVER_DUE, compaction: { ...compaction, autoCompact: false } };
    const session = await stage({ ...options, summarizer: summarizer() });
    await talk(session, 25, 500);
    expect(await session.prepareRequest()).toMatchObject({ compaction: null, failure: null });
    await session.close();
  });

  test("a manual compaction needs no threshold: plan, compact and forceCompact agree", async () => {
    const settings = { ...NEVER_DUE, tailKeepSize: 10, contextSize: 50 };
    const options = { policy, policySettings: settings, summarizer: summarizer() };
    for (const act of ["compact", "forceCompact"] as const) {
      const session = await stage({ ...options, compaction: { keepRecentTokens: 4_000 } });
      await talk(session, 18, 500);
      expect(await session.prepareRequest()).toMatchObject({ compaction: null });
      expect(session.planCompaction()).toMatchObject({ eligible: true });
      const before = estimateTotal(session.context.messages);
      const done = await session[act]();
      expect(done).toMatchObject(act === "compact" ? { eligible: true } : { success: true });
      expect(estimateTotal(session.context.messages)).toBeLessThan(before * 0.8);
      await session.close();
    }
  });

  test("a manual compaction has nothing to compact only if no message is before the kept ones", async () => {
    const session = await stage({ policy, summarizer: summarizer() });
    expect(await session.compact()).toMatchObject({ eligible: false, reason: /there are no messages yet/ });
    await talk(session, 2, 100);
    expect(await session.compact()).toMatchObject({ eligible: false, reason: /^Nothing to compact: / });
    expect(await session.forceCompact()).toMatchObject({ success: true, freedTokens: 0, preservedCount: 2 });
    await session.close();
  });
});

test("the consolidated count includes hidden messages, from one run to the next", async () => {
  const policySettings = { tailKeepSize: 10, contextSize: 50, compressionWindowSize: 6 };
  const options: SessionOptions = { policy: "sliding-window", policySettings, summarizer: summarizer() };
  const session = await stage(options);
  const indexOfFirstKept = () => {
    const path = session.getBranch();
    const newest = path.findLast((entry) => entry.type === "compaction") as unknown as {
      firstKeptEntryId: string;
      details: { lastConsolidated: number };
    };
    const messages = path.filter(({ type }) => type === "message");
    const index = messages.findIndex(({ id }) => id === newest.firstKeptEntryId);
    return { index, recorded: newest.details.lastConsolidated };
  };
  await talk(session, 12, 300);
  const hidden = session.context.sources.slice(2, 5);
  for (const id of hidden) await session.hide(id);
  await talk(session, 7, 300);
  expect(slidingWindowState(session)).toMatchObject({ lastConsolidated: 9 });
  expect(indexOfFirstKept()).toEqual({ index: 9, recorded: 9 });
  for (const id of session.context.sources.slice(3, 5)) await session.hide(id);
  await talk(session, 8, 300);
  expect(indexOfFirstKept()).toEqual({ index: 17, recorded: 17 });
  await session.close();
  const reopened = await openSession({ file: session.file }, { ...options, mode: "read" });
  expect(slidingWindowState(reopened)).toMatchObject({ lastConsolidated: 17 });
  await reopened.close();
});
