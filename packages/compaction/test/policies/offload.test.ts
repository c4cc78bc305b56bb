import { DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "@espalier/compaction";
import {
  COMPRESSED_HISTORY_HEADING,
  DEFAULT_OFFLOAD_SETTINGS,
  memoryOffloadStorage,
  offload,
  offloadedEntries,
  offloadIfNeeded,
  planOffloadRepair,
  restoreOffloadedContent,
} from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  contextEdit,
  type Entry,
  estimateTokens,
  estimateTotal,
} from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import { answer, calling, pathOf, planned, result, situationAt, talk, user } from "./conversation.ts";

/** A result of so many tokens. */
const large = (id: string, tokens: number) => result(id, id.repeat((tokens * 4) / id.length));

/** Three large results, the oldest first, and one that nobody has read yet. */
const history = (): ContextMessage[] => [
  user("go"),
  calling("a"),
  large("a", 3_000),
  calling("b"),
  large("b", 2_000),
  calling("c"),
  large("c", 999),
  calling("d"),
  large("d", 4_000),
];

test("the defaults are the document's", () => {
  expect(DEFAULT_OFFLOAD_SETTINGS).toEqual({
    offloadMinTokens: 1_000,
    triggerTokens: 15_000,
    preserveCount: 5,
    targetTokens: 8_000,
    retryCount: 3,
  });
});

test.each([
  [{ preserveCount: 0 }, "preserveCount"],
  [{ retryCount: 0 }, "retryCount"],
  [{ targetTokens: 10 }, "targetTokens"],
  [{ offloadThreshold: 0.5 }, "offloadThreshold"],
])("%j are refused, and the error names %s", (settings, key) => {
  expect(() => offload(settings)).toThrow(EspalierError);
  expect(() => offload(settings)).toThrow(key);
});

describe("offloadIfNeeded", () => {
  test("does nothing at or below the threshold, which is that of the model's window", () => {
    const messages = history();
    const tokens = estimateTotal(messages);
    const unchanged = { messages, offloadedCount: 0, freedTokens: 0, stillExceedsThreshold: false };
    expect(offloadIfNeeded(messages)).toMatchObject(unchanged);
    expect(offloadIfNeeded(messages, { offloadThreshold: tokens })).toMatchObject(unchanged);
    const threshold = thresholdOf(DEFAULT_COMPACTION_SETTINGS);
    expect(offloadIfNeeded(messages, { tokens: threshold }).offloadedCount).toBe(0);
    expect(offloadIfNeeded(messages, { tokens: threshold + 1 }).offloadedCount).toBe(1);
  });

  test("moves results to files, oldest first, until the messages are within the threshold", () => {
    const messages = history();
    const tokens = estimateTotal(messages);
    const once = offloadIfNeeded(messages, { offloadThreshold: tokens - 1 });
    expect(once.files.map(({ index }) => index)).toEqual([2]);
    expect(once.messages[2]).toMatchObject({
      toolCallId: "a",
      content: [{ type: "text", text: "Tool result is at: offloaded/1.txt" }],
    });
    expect(once.freedTokens).toBe(estimateTotal(messages) - estimateTotal(once.messages));
    expect(once.stillExceedsThreshold).toBe(false);
    expect(offloadIfNeeded(messages, { offloadThreshold: tokens - 3_000 }).offloadedCount).toBe(2);
  });

  test("keeps small results, and results after the newest answer, however large the context is", () => {
    const all = offloadIfNeeded(history(), { offloadThreshold: 1 });
    expect(all.files.map(({ index }) => index)).toEqual([2, 4]);
    expect(all.stillExceedsThreshold).toBe(true);
    expect(offloadIfNeeded(history(), { offloadThreshold: 1, offloadMinTokens: 999 }).offloadedCount).toBe(3);
    expect(offloadIfNeeded([...history(), answer("read")], { offloadThreshold: 1 }).offloadedCount).toBe(3);
  });

  test("does not count a failed answer as having read a result", () => {
    const failed = { ...answer("…"), stopReason: "error" as const };
    expect(offloadIfNeeded([...history(), failed], { offloadThreshold: 1 }).offloadedCount).toBe(2);
  });

  test("keeps results with media, and results that are already in files", () => {
    const image = { type: "image" as const, data: "aGk=", mimeType: "image/png" };
    const picture = { ...large("a", 3_000), content: [...large("a", 3_000).content, image] };
    const messages = [calling("a"), picture, answer("seen")];
    expect(offloadIfNeeded(messages, { offloadThreshold: 1 }).offloadedCount).toBe(0);
    const moved = offloadIfNeeded([...history(), answer("read")], { offloadThreshold: 1 });
    expect(offloadIfNeeded(moved.messages, { offloadThreshold: 1 }).offloadedCount).toBe(0);
  });

  test("writes one file per text", () => {
    const messages = [
      calling("a", "b"),
      large("a", 2_000),
      { ...large("a", 2_000), toolCallId: "b" },
      answer(""),
    ];
    const { files } = offloadIfNeeded(messages, { offloadThreshold: 1 });
    expect(files.map(({ path }) => path)).toEqual(["offloaded/1.txt", "offloaded/1.txt"]);
  });
});

describe("reading offloaded results", () => {
  test("returns the content, or reports a missing file", async () => {
    const storage = memoryOffloadStorage();
    const messages = [...history(), answer("read")];
    const { messages: moved, files } = offloadIfNeeded(messages, {
      offloadThreshold: 1,
      pathFor: storage.pathFor,
    });
    for (const { text } of files.slice(1)) await storage.write(text);
    const restored = await restoreOffloadedContent(moved, storage);
    expect(restored[2]).toMatchObject({
      content: [{ type: "text", text: `[Content unavailable: ${files[0]!.path}]` }],
    });
    expect(restored.slice(3)).toEqual(messages.slice(3));
  });

  test("reads no file outside the folder, and no reference in a text of the user", async () => {
    const reading = { ...memoryOffloadStorage(), read: () => Promise.reject(new Error("read")) };
    const messages = [
      result("a", "Tool result is at: /etc/passwd"),
      user("Tool result is at: offloaded/1.txt"),
      result("b", "Tool result is at: offloaded/1.txt\nand more"),
    ];
    expect(await restoreOffloadedContent(messages, reading)).toEqual(messages);
  });
});

describe("the policy", () => {
  const settings = { ...DEFAULT_COMPACTION_SETTINGS, contextWindow: 12_000, reserveTokens: 2_000 };

  test("moves results above the threshold: files, and edits that refer to them", () => {
    const path = pathOf([...history(), answer("read")]);
    const storage = memoryOffloadStorage("s.offloaded");
    const plan = offload().offload!(situationAt(path, { settings }), storage.pathFor)!;
    expect(plan).toMatchObject({ offloadedCount: 1, stillExceedsThreshold: false });
    expect(plan.files[0]!.text).toBe("a".repeat(12_000));
    const said = { type: "text", text: "Tool result is at: s.offloaded/1.txt" };
    expect(plan.edits).toEqual([{ targetId: "e2", replacement: { content: [said] } }]);
    const roomy = situationAt(path, { settings: DEFAULT_COMPACTION_SETTINGS });
    expect(offload().offload!(roomy, storage.pathFor)).toBeUndefined();
  });

  test("moves a result that an edit has shortened as a whole", () => {
    const path = pathOf([calling("a"), large("a", 9_000), answer("read"), user("more")]);
    const shortened = contextEdit.of({ targetId: "e1", replacement: { content: "a".repeat(8_000) } });
    const edited = [...path, { ...shortened, id: "edit", parentId: "e3", timestamp: "" } as Entry];
    const tight = { ...settings, contextWindow: 3_000 };
    const plan = offload().offload!(situationAt(edited, { settings: tight }), () => "p")!;
    expect(plan.files).toEqual([{ path: "p", text: "a".repeat(36_000) }]);
    expect(plan.freedTokens).toBe(2_000 - estimateTokens(result("a", "Tool result is at: p")));
  });

  test.each([
    ["freed too little, still too large", { freedTokens: 14_999, stillExceedsThreshold: true }, "threshold"],
    ["freed enough, still too large", { freedTokens: 15_000, stillExceedsThreshold: true }, undefined],
    ["freed little, no longer too large", { freedTokens: 10, stillExceedsThreshold: false }, undefined],
    ["nothing could be moved, too large", { freedTokens: 0, stillExceedsThreshold: true }, "threshold"],
  ])("%s: a compaction is due: %s", (_, offloaded, due) => {
    expect(offload().judge(situationAt(pathOf(talk(3)), { offloaded }))).toBe(due);
  });

  test("without having moved anything, counts the results that could be moved", () => {
    const tight = { ...settings, contextWindow: 5_000 };
    expect(offload().judge(situationAt(pathOf(history()), { settings: tight }))).toBe("threshold");
    expect(offload().judge(situationAt(pathOf(history()), { settings }))).toBeUndefined();
    expect(offload({ triggerTokens: 4_000 }).judge(situationAt(pathOf(history()), { settings: tight }))).toBe(
      undefined,
    );
  });

  test("counts system prompt and tools with an estimate, but not in addition to a provider's count", () => {
    const counted = { input: 9_000, output: 100, cacheRead: 0, cacheWrite: 0 };
    const judged = (messages: ReturnType<typeof history>) =>
      offload({ offloadThreshold: 10_000, triggerTokens: 20_000 }).judge(
        situationAt(pathOf(messages), { overheadTokens: 5_000 }),
      );
    const asked = [user("go on ".repeat(5_400))];
    expect(judged([...asked, answer("read")])).toBe("threshold");
    expect(judged([...asked, { ...answer("read"), usage: counted }])).toBeUndefined();
    expect(judged([...asked, { ...answer("read"), usage: { ...counted, input: 9_901 } }])).toBe("threshold");
  });

  test("keeps the newest five messages, and more where a call would be separated from its results", () => {
    expect(planned(offload(), pathOf(talk(12))).keptIds).toHaveLength(5);
    const pairs = [...talk(4), calling("x", "y", "z"), result("x"), result("y"), result("z"), ...talk(3)];
    expect(planned(offload(), pathOf(pairs)).firstKeptEntryId).toBe("e4");
  });

  test("has nothing to compact for at most five messages", () => {
    expect(offload().plan(situationAt(pathOf(talk(5))), {})).toMatchObject({ eligible: false });
    expect(offload().plan(situationAt([]), {})).toMatchObject({
      eligible: false,
      reason: expect.stringMatching(/^Nothing to compact/),
    });
  });

  test("requests a summary of the target length with its own system prompt, and adds a heading", () => {
    const plan = planned(offload(), pathOf(talk(12)));
    expect(plan.style).toMatchObject({
      heading: "[Compressed History]\n\n",
      maxOutputTokens: 9_600,
      attempts: 3,
      systemPrompt: expect.stringContaining("approximately 8000 tokens."),
    });
    expect(plan.maxSummaryTokens).toBe(9_600);
    const model = planned(offload({ model: "small", targetTokens: 1_000 }), pathOf(talk(12))).style;
    expect(model).toMatchObject({ model: "small", maxOutputTokens: 1_200 });
  });

  test("lists the files to read back, only those of the summarized part", () => {
    const referring = (id: string, path: string) => result(id, `Tool result is at: ${path}`);
    const messages = [
      calling("x"),
      referring("x", "f/1.txt"),
      ...talk(3),
      calling("y"),
      referring("y", "f/2.txt"),
      ...talk(3),
    ];
    const plan = planned(offload(), pathOf(messages));
    expect(plan.readBack).toEqual(["f/1.txt"]);
    expect(plan.keptMessages).toContainEqual(referring("y", "f/2.txt"));
  });

  test("updates the first summary in a second compaction, without its heading", () => {
    const compacted = {
      type: "compaction",
      id: "c",
      parentId: null,
      timestamp: "2026-01-01T00:00:00.000Z",
      summary: `${COMPRESSED_HISTORY_HEADING}## Technical Context\nvim`,
      firstKeptEntryId: "c",
      tokensBefore: 9,
    } as Entry;
    const plan = planned(offload(), [compacted, ...pathOf(talk(12))]);
    expect(plan.previousSummary).toBe("## Technical Context\nvim");
  });
});

describe("offloaded files of a path", () => {
  const storage = memoryOffloadStorage("own.offloaded");
  const text = "x".repeat(5_000);
  const edit = (path: string, id = "edit") =>
    ({
      ...contextEdit.of({
        targetId: "e1",
        replacement: { content: [{ type: "text", text: `Tool result is at: ${path}` }] },
      }),
      id,
      parentId: "e2",
      timestamp: "",
    }) as Entry;
  const path = pathOf([calling("a"), result("a", text), answer("read")]);

  test("come from its edits, the newest of each entry", () => {
    expect(offloadedEntries([...path, edit("p/1.txt")])).toEqual([{ targetId: "e1", path: "p/1.txt" }]);
    expect(offloadedEntries([...path, edit("p/1.txt"), edit("p/2.txt", "later")])).toEqual([
      { targetId: "e1", path: "p/2.txt" },
    ]);
    const undone = { ...edit("p/1.txt", "undo"), replacement: null } as Entry;
    expect(offloadedEntries([...path, edit("p/1.txt"), undone])).toEqual([]);
    expect(offloadedEntries([edit("p/1.txt")])).toEqual([]);
  });

  test("are restored from the log", () => {
    const own = storage.pathFor(text);
    expect(planOffloadRepair([...path, edit(own)], storage)).toEqual({
      files: [{ path: own, text }],
      edits: [],
    });
  });

  test("get their own folder after a fork or a move", () => {
    const own = storage.pathFor(text);
    const repair = planOffloadRepair([...path, edit("other.offloaded/1.txt")], storage);
    expect(repair.files).toEqual([{ path: own, text }]);
    expect(repair.edits).toEqual([
      {
        targetId: "e1",
        replacement: { content: [{ type: "text", text: `Tool result is at: ${own}` }] },
      },
    ]);
  });

  test("do not include files that Espalier did not name", () => {
    expect(planOffloadRepair([...path, edit("/etc/passwd")], storage)).toEqual({ files: [], edits: [] });
  });
});
