import { DEFAULT_SLIDING_WINDOW_SETTINGS, slidingWindow } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import { type ContextMessage, compaction, contextOfPath, type Entry } from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import { answer, calling, pathOf, planned, result, situationAt, talk, user } from "./conversation.ts";

const minutes = (count: number) => Date.UTC(2026, 0, 1, 0, count);

test("the defaults are the document's", () => {
  expect(DEFAULT_SLIDING_WINDOW_SETTINGS).toEqual({
    contextSize: 75,
    tailKeepSize: 40,
    compressionWindowSize: 12,
    compressionCooldownSec: 900,
    compressionHardLimit: 30,
  });
});

describe("settings", () => {
  test.each([
    [{ tailKeepSize: 75 }, ["tailKeepSize", "contextSize"]],
    [{ tailKeepSize: 40, contextSize: 30 }, ["tailKeepSize", "contextSize"]],
    [{ compressionWindowSize: 0 }, ["compressionWindowSize"]],
    [{ compressionCooldownSec: -1 }, ["compressionCooldownSec"]],
    [{ contextSize: 7.5 }, ["contextSize"]],
    [{ compressionHardLimit: Number.NaN }, ["compressionHardLimit"]],
  ])("%j are refused, and the error names %j", (settings, keys) => {
    const refused = () => slidingWindow(settings);
    expect(refused).toThrow(EspalierError);
    try {
      refused();
    } catch (error) {
      expect(error).toMatchObject({ code: "settings", keys });
      for (const key of keys) expect((error as Error).message).toContain(key);
    }
  });
});

describe("evaluation after an append", () => {
  test.each([
    ["40 messages: all of them are tail", 40, minutes(60), undefined],
    ["one beyond the tail, a minute old", 41, minutes(1), undefined],
    ["one beyond the tail, the cooldown has passed", 41, minutes(15), "policy"],
    ["one beyond the tail, a second before the cooldown has passed", 41, minutes(15) - 1_000, undefined],
    ["11 beyond the tail", 51, minutes(1), undefined],
    ["12 beyond the tail", 52, minutes(1), "policy"],
    ["30 beyond the tail", 70, minutes(1), "policy"],
  ])("%s", (_, messages, now, due) => {
    expect(slidingWindow().judge(situationAt(pathOf(talk(messages)), { now }))).toBe(due);
  });

  test("the hard limit applies if the window is larger", () => {
    const policy = slidingWindow({ compressionWindowSize: 100 });
    expect(policy.judge(situationAt(pathOf(talk(69))))).toBeUndefined();
    expect(policy.judge(situationAt(pathOf(talk(70))))).toBe("policy");
  });

  test("a clock that jumps back, or a header without a time, never ends a cooldown", () => {
    const path = pathOf(talk(41));
    expect(slidingWindow().judge(situationAt(path, { now: 0 }))).toBeUndefined();
    expect(slidingWindow().judge(situationAt(path, { now: minutes(999), startedAt: "" }))).toBeUndefined();
  });

  test("after a run, the cooldown counts from its end, and summarized messages no longer count", () => {
    const path = withRun(pathOf(talk(53)), 12, "2026-01-01T01:00:00.000Z");
    expect(slidingWindow().judge(situationAt(path, { now: minutes(74) }))).toBeUndefined();
    expect(slidingWindow().judge(situationAt(path, { now: minutes(75) }))).toBe("policy");
  });
});

/** A run after which `kept` is the first message that stays. */
function withRun(path: Entry[], kept: number, at: string): Entry[] {
  const entry = {
    ...compaction.of({ summary: "what was said", firstKeptEntryId: `e${kept}`, tokensBefore: 1 }),
    id: "run",
    parentId: path.at(-1)!.id,
    timestamp: at,
    details: { lastConsolidated: kept, lastConsolidatedAt: at },
  };
  return [...path, entry as Entry];
}

describe("a run", () => {
  test("summarizes from the last run to the tail, as one span", () => {
    const plan = planned(slidingWindow(), pathOf(talk(52)));
    expect(plan.historyIds).toEqual(Array.from({ length: 12 }, (_, at) => `e${at}`));
    expect(plan.firstKeptEntryId).toBe("e12");
    expect(plan.keptIds).toHaveLength(40);
    expect(plan).toMatchObject({ isSplitTurn: false, turnPrefixIds: [] });
  });

  test("updates the previous summary with the newer messages", () => {
    const plan = planned(slidingWindow(), withRun(pathOf(talk(64)), 12, "2026-01-01T01:00:00.000Z"));
    expect(plan.previousSummary).toBe("what was said");
    expect(plan.historyIds).toEqual(Array.from({ length: 12 }, (_, at) => `e${at + 12}`));
  });

  test("ends at the call if the limit is between a call and its results", () => {
    // The tail of 2 begins at the second result.
    const messages = [user("a"), answer("b"), calling("x", "y"), result("x"), result("y"), answer("c")];
    const plan = planned(slidingWindow({ tailKeepSize: 2, contextSize: 4 }), pathOf(messages));
    expect(plan.firstKeptEntryId).toBe("e2");
    expect(plan.keptIds).toHaveLength(4);
  });

  test("records its position and time, counted from the root", () => {
    const policy = slidingWindow();
    const path = withRun(pathOf(talk(64)), 12, "2026-01-01T01:00:00.000Z");
    const covered = { firstEntryId: "e12", lastEntryId: "e23", messages: 12 };
    const at = "2026-01-01T02:00:00.000Z";
    const made = { entryId: "c", sessionId: "s", summary: "", fromExtension: false, covered, at };
    expect(policy.record!(planned(policy, path), made, situationAt(path))).toEqual({
      lastConsolidated: 24,
      lastConsolidatedAt: at,
    });
  });

  test("continues in a session that another policy or program compacted", () => {
    const policy = slidingWindow({ tailKeepSize: 4, contextSize: 8 });
    const path = withRun(pathOf(talk(20)), 5, "2026-01-01T00:00:00.000Z");
    const foreign = path.map((entry) => (compaction.is(entry) ? { ...entry, details: undefined } : entry));
    const covered = { firstEntryId: "e5", lastEntryId: "e15", messages: 11 };
    const made = { entryId: "c", sessionId: "s", summary: "", fromExtension: false, covered, at: "" };
    const plan = planned(policy, foreign);
    expect(policy.record!(plan, made, situationAt(foreign))).toMatchObject({ lastConsolidated: 16 });
    // Where only the end of the path is at hand, what stands above it is asked for.
    const end = foreign.slice(5);
    const situation = situationAt(end, { messagesAbove: () => 5 });
    expect(policy.record!(plan, made, situation)).toMatchObject({ lastConsolidated: 16 });
  });
});

describe("a request", () => {
  const shaped = (messages: ContextMessage[], contextSize: number) =>
    slidingWindow({ contextSize, tailKeepSize: 1 }).shape!(contextOfPath(pathOf(messages)));

  test("has at most contextSize messages, the newest", () => {
    const messages = talk(80);
    expect(shaped(messages, 75)).toEqual(messages.slice(5));
    expect(shaped(messages.slice(0, 75), 75)).toHaveLength(75);
  });

  test("does not count the summary", () => {
    const path = withRun(pathOf(talk(90)), 10, "2026-01-01T01:00:00.000Z");
    const messages = slidingWindow().shape!(contextOfPath(path));
    expect(messages[0]).toMatchObject({ role: "compactionSummary" });
    expect(messages.slice(1)).toEqual(talk(90).slice(-75));
  });

  test("has a call with all its results or not at all", () => {
    const messages = [user("a"), calling("x", "y"), result("x"), result("y"), user("b"), answer("c")];
    expect(shaped(messages, 4)).toEqual(messages.slice(4));
    expect(shaped(messages, 5)).toEqual(messages.slice(1));
  });

  test("keeps the newest call with all its results, even above contextSize", () => {
    const messages = [user("a"), calling("x", "y", "z"), result("x"), result("y"), result("z")];
    expect(shaped(messages, 2)).toEqual(messages.slice(1));
  });
});
