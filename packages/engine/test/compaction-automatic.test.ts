import { automaticInARow } from "@espalier/engine";
import type { Usage } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { bytesOf, plant, soundAnswer, turn, words } from "./build-session.ts";

const usage = (tokens: number): Usage => ({
  input: tokens,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: tokens,
});
const compactions = (session: { getBranch(): { type: string }[] }) =>
  session.getBranch().filter(({ type }) => type === "compaction").length;

/** Due above 1,000 tokens; keeps 100. */
const compaction = { contextWindow: 3_000, reserveTokens: 2_000, keepRecentTokens: 100 };
const due = { compaction, summarizer: scriptedSummarizer(soundAnswer) };

describe("a compaction that a policy finds due", () => {
  test("is due strictly above the threshold, by the provider's count", async () => {
    const { session } = await plant({ turns: 3, ...due });
    await session.appendMessages([{ role: "assistant", content: "at it", usage: usage(1_000) }]);
    expect(await session.compactWhenDue()).toBeUndefined();
    await session.appendMessages([{ role: "user", content: "." }]);
    expect(await session.compactWhenDue()).toMatchObject({ eligible: true });
    expect(compactions(session)).toBe(1);
  });

  test("is not due again because of a usage from before it", async () => {
    const { session } = await plant({ turns: 1, ...due });
    await session.appendMessages([{ role: "assistant", content: words(10), usage: usage(150_000) }]);
    await session.appendMessages(turn("2"));
    expect(await session.compactWhenDue()).toMatchObject({ eligible: true });
    expect(await session.compactWhenDue()).toBeUndefined();
    expect(compactions(session)).toBe(1);
  });

  test("does not happen with autoCompact off: an overflow is a typed error, a command works", async () => {
    const { session } = await plant({ turns: 12, ...due, compaction: { ...compaction, autoCompact: false } });
    const before = bytesOf(session);
    expect(await session.compactWhenDue()).toBeUndefined();
    for (const reason of ["overflow", "threshold", "policy"] as const)
      await expect(session.compact({ reason })).rejects.toMatchObject({ code: "auto-off" });
    expect(bytesOf(session).equals(before)).toBe(true);
    expect(await session.compact()).toMatchObject({ eligible: true });
  });

  test("has its reason in the entry, and extensions learn whether the request is sent again", async () => {
    const heard: unknown[] = [];
    const { session } = await plant({
      turns: 12,
      ...due,
      extensions: [
        (api) => {
          api.on("session_before_compact", ({ reason, willRetry }) => void heard.push({ reason, willRetry }));
          api.on("session_compact", ({ reason, willRetry }) => void heard.push({ reason, willRetry }));
        },
      ],
    });
    await session.compact({ reason: "overflow" });
    expect(heard).toEqual([
      { reason: "overflow", willRetry: true },
      { reason: "overflow", willRetry: true },
    ]);
    expect(session.getBranch().at(-1)).toMatchObject({ details: { reason: "overflow", automaticInARow: 1 } });
  });
});

describe("automatic compactions without an answer between them", () => {
  test("are at most two, even if each hides the previous one", async () => {
    const { session } = await plant({ turns: 4, ...due });
    for (let round = 1; round <= 2; round++) {
      await session.appendMessages([{ role: "user", content: words(1_500, `${round}`) }]);
      expect(await session.compact({ reason: "overflow" })).toMatchObject({ eligible: true });
      expect(automaticInARow(session)).toBe(round);
    }
    await session.appendMessages([{ role: "user", content: words(1_500, "3") }]);
    for (const reason of ["overflow", "threshold"] as const)
      await expect(session.compact({ reason })).rejects.toMatchObject({
        code: "exhausted",
        breakdown: { contextTokens: expect.any(Number) },
      });
    await expect(session.compactWhenDue()).rejects.toMatchObject({ code: "exhausted" });
    // One by hand is allowed, and counts for nothing.
    expect(await session.compact()).toMatchObject({ eligible: true });
  });

  test("are not separated by failed or aborted answers; a complete answer permits more", async () => {
    const { session } = await plant({ turns: 4, ...due });
    for (let round = 1; round <= 2; round++) {
      await session.appendMessages([{ role: "user", content: words(1_500, `${round}`) }]);
      await session.compact({ reason: "threshold" });
      await session.appendMessages([
        { role: "assistant", content: "no", stopReason: round === 1 ? "error" : "aborted" },
      ]);
    }
    await session.appendMessages([{ role: "user", content: words(1_500, "3") }]);
    await expect(session.compact({ reason: "threshold" })).rejects.toMatchObject({ code: "exhausted" });
    await session.appendMessages([{ role: "assistant", content: "yes" }]);
    expect(automaticInARow(session)).toBe(0);
    expect(await session.compact({ reason: "threshold" })).toMatchObject({ eligible: true });
  });
});

test("required messages above the window are a typed error that names the parts, and no compaction begins", async () => {
  const { session } = await plant({ turns: 2, ...due });
  await session.appendMessages([{ role: "user", content: words(5_000) }]);
  const before = bytesOf(session);
  await expect(session.compact({ reason: "overflow", overheadTokens: 400 })).rejects.toMatchObject({
    code: "irreducible",
    breakdown: { systemAndTools: 400, newestUserMessage: 5_000, contextWindow: 3_000 },
  });
  expect(bytesOf(session).equals(before)).toBe(true);
  expect(session.isCompacting).toBe(false);
  // A larger model makes it possible.
  expect(await session.compact({ reason: "overflow", settings: { contextWindow: 20_000 } })).toMatchObject({
    eligible: true,
  });
});
