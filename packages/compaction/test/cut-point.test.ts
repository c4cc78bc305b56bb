import { findCutPoint } from "@espalier/compaction";
import type { Entry } from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { image, PathBuilder, text, words } from "./build-path.ts";
import { naiveCut } from "./naive-cut.ts";

const cut = (path: PathBuilder, keep: number) => findCutPoint(path.entries, 0, path.entries.length, keep);
const firstKept = (path: PathBuilder, keep: number) => path.entries[cut(path, keep).firstKeptIndex]!.id;

describe("the worked example of the design document", () => {
  /** Messages of 500, 800, 1,200, 3,000, 5,000, 8,000, 4,000 and 2,000 tokens; the fourth as told. */
  function example(fourth: "tool result" | "legal") {
    const path = new PathBuilder();
    path.user(words(500));
    path.answer(words(800));
    if (fourth === "legal") path.user(words(1_200));
    else {
      // A call that takes 1,200 tokens with its name and the JSON around its argument.
      path.call([{ name: "read", arguments: { path: "x".repeat(1_200 * 4 - 4 - '{"path":""}'.length) } }]);
    }
    if (fourth === "legal") path.answer(words(3_000));
    else path.result("call-1", words(3_000));
    path.answer(words(5_000));
    path.user(words(8_000));
    path.answer(words(4_000));
    path.user(words(2_000));
    return path;
  }

  test("it cuts at msg5 where msg4 is a tool result", () => {
    expect(cut(example("tool result"), 20_000)).toEqual({
      firstKeptIndex: 4,
      turnStartIndex: 0,
      isSplitTurn: true,
    });
  });

  test("it cuts at msg4 where msg4 is legal", () => {
    expect(cut(example("legal"), 20_000)).toEqual({
      firstKeptIndex: 3,
      turnStartIndex: 2,
      isSplitTurn: true,
    });
  });
});

describe("weights of entries, and entries that stay with their successor", () => {
  test("metadata just before a user message goes with it and does not split the turn", () => {
    const path = new PathBuilder();
    path.user(words(100));
    path.answer(words(100));
    const first = path.add({ type: "model_change", provider: "anthropic", modelId: "claude-test" });
    path.add({ type: "custom", customType: "todo", data: 1 });
    path.add({ type: "label", targetId: "e1", label: "start" });
    path.add({ type: "never_heard_of" });
    path.user(words(100));
    expect(firstKept(path, 100)).toBe(first);
    expect(cut(path, 100)).toMatchObject({ isSplitTurn: false, turnStartIndex: -1 });
  });

  test("a shell run excluded from the context weighs nothing, begins no turn and stays with the next entry", () => {
    const path = new PathBuilder();
    path.user(words(50));
    path.answer(words(50));
    const secret = path.say({
      role: "bashExecution",
      command: "pass show",
      output: words(9_000),
      exitCode: 0,
      excludeFromContext: true,
    });
    path.answer(words(50));
    expect(firstKept(path, 50)).toBe(secret);
    expect(cut(path, 50)).toMatchObject({ isSplitTurn: true, turnStartIndex: 0 });
    expect(cut(path, 151)).toMatchObject({ firstKeptIndex: 0 });
  });

  test("an edit weighs as much as its replacement, and does not stay with the next entry", () => {
    const path = new PathBuilder();
    const big = path.user(words(1_000));
    path.answer(words(10));
    path.add({ type: "context_edit", targetId: big, replacement: { content: "short" } });
    const last = path.user(words(10));
    expect(firstKept(path, 10)).toBe(last);
    expect(cut(path, 100)).toMatchObject({ firstKeptIndex: 0 });
  });

  test("the newest edit of an entry counts: one with a content brings back what an earlier one left out", () => {
    const path = new PathBuilder();
    path.user(words(10));
    path.answer(words(10));
    const edited = path.user(words(1_000));
    path.add({ type: "context_edit", targetId: edited, replacement: null });
    path.add({ type: "context_edit", targetId: edited, replacement: { content: words(20) } });
    path.answer(words(10));
    expect(firstKept(path, 30)).toBe(edited);
    expect(cut(path, 30)).toMatchObject({ isSplitTurn: false });
  });

  test("an image weighs 1,200 tokens, and each message is rounded up by itself", () => {
    const path = new PathBuilder();
    path.user("a");
    path.user([image()] as never);
    path.user("a");
    expect(firstKept(path, 1_201)).toBe("e2");
    expect(firstKept(path, 1_202)).toBe("e1");
  });

  test("an image at an address weighs as much as one in the message", () => {
    const path = new PathBuilder();
    path.user("a");
    path.user([{ type: "imageUrl", url: "https://example.com/a.png" }] as never);
    path.user("a");
    expect(firstKept(path, 1_201)).toBe("e2");
    expect(firstKept(path, 1_202)).toBe("e1");
  });

  test("failed and aborted answers have weight and are legal cuts like any other", () => {
    const path = new PathBuilder();
    path.user(words(10));
    path.answer(words(100), { stopReason: "error", errorMessage: "overloaded" });
    path.user(words(10));
    expect(firstKept(path, 110)).toBe("e2");
  });
});

describe("legal cuts of a path", () => {
  test("are never between a call and the last of its results, even with other messages in between", () => {
    const path = new PathBuilder();
    path.user(words(10));
    const [a, b] = path.call([
      { name: "read", arguments: {} },
      { name: "read", arguments: {} },
    ]);
    path.result(a!, words(10));
    path.user(words(10));
    path.result(b!, words(10));
    const after = path.user(words(10));
    for (const keep of [5, 10]) expect(firstKept(path, keep)).toBe(after);
    for (const keep of [11, 25, 40]) expect(firstKept(path, keep)).toBe(after);
    path.entries.pop();
    for (const keep of [5, 15, 25]) expect(firstKept(path, keep)).toBe("e2");
  });

  test("ignore calls without results and results without a call", () => {
    const path = new PathBuilder();
    path.user(words(10));
    path.call([{ name: "read", arguments: {} }]);
    const user = path.user(words(10));
    path.result("call-of-nobody", words(10));
    path.answer(words(10));
    expect(firstKept(path, 25)).toBe(user);
  });

  test("custom messages and branch summaries are legal and begin a turn, custom entries are neither", () => {
    const path = new PathBuilder();
    path.user(words(10));
    path.answer(words(10));
    const injected = path.add({
      type: "custom_message",
      customType: "note",
      content: words(10),
      display: true,
    });
    path.answer(words(10));
    const summary = path.add({ type: "branch_summary", fromId: "e1", summary: words(10) });
    path.answer(words(10));
    path.add({ type: "custom", customType: "state", data: words(500) });
    expect(firstKept(path, 40)).toBe(injected);
    expect(cut(path, 40).isSplitTurn).toBe(false);
    expect(firstKept(path, 20)).toBe(summary);
    expect(cut(path, 10)).toMatchObject({ isSplitTurn: true, turnStartIndex: 4 });
  });

  test("trailing results larger than the budget are kept with their call", () => {
    const path = new PathBuilder();
    path.user(words(10));
    path.tool("read", {}, words(50_000));
    expect(cut(path, 20_000)).toEqual({ firstKeptIndex: 1, turnStartIndex: 0, isSplitTurn: true });
  });

  test("everything is kept if the budget is not reached or no cut is legal", () => {
    const path = new PathBuilder();
    path.user(words(10));
    path.answer(words(10));
    expect(cut(path, 21)).toEqual({ firstKeptIndex: 0, turnStartIndex: -1, isSplitTurn: false });
    expect(findCutPoint([], 0, 0, 20_000)).toMatchObject({ firstKeptIndex: 0 });
    const orphans = new PathBuilder();
    orphans.result("nobody", words(100));
    expect(cut(orphans, 10)).toMatchObject({ firstKeptIndex: 0, isSplitTurn: false });
  });

  test("a budget of 0 keeps the newest message with a weight; an infinite budget keeps everything", () => {
    const path = new PathBuilder();
    path.user(words(10));
    path.answer("");
    const last = path.answer(words(10));
    path.add({ type: "usage", kind: "x", provider: "p", model: "m", usage: {} });
    expect(firstKept(path, 0)).toBe(last);
    expect(firstKept(path, -5)).toBe(last);
    for (const keep of [Number.POSITIVE_INFINITY, Number.NaN])
      expect(cut(path, keep)).toMatchObject({ firstKeptIndex: 0 });
  });

  test("only entries between start and end count, and indexes are those of the path", () => {
    const path = new PathBuilder();
    for (let at = 0; at < 10; at++) path.user(words(10));
    expect(findCutPoint(path.entries, 2, 8, 20)).toEqual({
      firstKeptIndex: 6,
      turnStartIndex: -1,
      isSplitTurn: false,
    });
    expect(findCutPoint(path.entries, 5, 8, 100)).toMatchObject({ firstKeptIndex: 5 });
  });

  test("the summary of an earlier compaction is not a legal cut", () => {
    const path = new PathBuilder();
    path.user(words(10));
    const kept = path.user(words(10));
    path.compaction(kept, words(5_000));
    path.answer(words(10));
    const last = path.user(words(10));
    expect(findCutPoint(path.entries, 1, path.entries.length, 10)).toMatchObject({
      firstKeptIndex: path.entries.findIndex(({ id }) => id === last),
    });
    expect(findCutPoint(path.entries, 1, path.entries.length, 31)).toMatchObject({ firstKeptIndex: 1 });
  });
});

/** One step of a random session; calls and results may be separated, missing or doubled. */
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("user"), size: fc.nat(60) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("answer"), size: fc.nat(60) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("call"), size: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("result"), size: fc.nat(60) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "failed",
        "bash",
        "excluded",
        "custom_message",
        "custom",
        "label",
        "model_change",
        "branch_summary",
        "edit",
        "image",
        "unheard_of",
        "orphan",
        "usage",
      ),
      size: fc.nat(60),
    }),
  },
);

function randomPath(steps: readonly { kind: string; size: number }[]): Entry[] {
  const path = new PathBuilder();
  const open: string[] = [];
  for (const { kind, size } of steps) {
    const said = words(size);
    if (kind === "user") path.user(said);
    else if (kind === "answer") path.answer(said);
    else if (kind === "failed") path.answer(said, { stopReason: "aborted" });
    else if (kind === "call")
      open.push(
        ...path.call(Array.from({ length: size }, () => ({ name: "read", arguments: { path: "a" } }))),
      );
    else if (kind === "result")
      path.result(size % 7 === 0 ? (open[0] ?? "none") : (open.pop() ?? "none"), said);
    else if (kind === "orphan") path.result("nobody", said);
    else if (kind === "image") path.user([text(said), image()] as never);
    else if (kind === "bash" || kind === "excluded")
      path.say({
        role: "bashExecution",
        command: "ls",
        output: said,
        exitCode: 0,
        ...(kind === "excluded" ? { excludeFromContext: true } : {}),
      });
    else if (kind === "custom_message")
      path.add({ type: kind, customType: "note", content: said, display: true });
    else if (kind === "branch_summary") path.add({ type: kind, fromId: "e1", summary: `s${said}` });
    else if (kind === "edit" && path.entries.length > 0) {
      const target = path.entries[size % path.entries.length]!;
      const isBash = (target as { message?: { role?: string } }).message?.role === "bashExecution";
      if (target.type === "message" && !isBash)
        path.add({
          type: "context_edit",
          targetId: target.id,
          replacement: size % 2 ? null : { content: [text(said)] },
        });
    } else
      path.add({ type: kind === "edit" ? "custom" : kind, customType: "x", targetId: "e1", ...SETTINGS });
  }
  return path.entries;
}

const SETTINGS = { provider: "anthropic", modelId: "m", kind: "k", model: "m", usage: {} };

test("property: the cut equals that of an independent version of the rule", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.integer({ min: 0, max: 400 }), (steps, keep) => {
      const entries = randomPath(steps);
      expect(findCutPoint(entries, 0, entries.length, keep)).toEqual(naiveCut(entries, keep));
    }),
    { numRuns: 1_500 },
  );
});
