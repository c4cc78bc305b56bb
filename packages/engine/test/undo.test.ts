import { describe, expect, test } from "vitest";
import { contextOf, plant } from "./build-session.ts";

describe("taking back a compaction", () => {
  test("one that was asked for is an act: the leaf and the context are what they were before it", async () => {
    const { session, store } = await plant();
    const before = { leafId: session.leafId, context: await contextOf(session, store) };
    expect((await session.compact()).eligible).toBe(true);
    expect(await session.undo()).toMatchObject({ leafId: before.leafId, editorText: null });
    expect(await contextOf(session, store)).toEqual(before.context);
  });

  test("acts come back in the order in which they were done", async () => {
    const { session } = await plant();
    await session.compact();
    const compacted = session.leafId;
    await session.appendMessages([{ role: "user", content: "What about the south wall?" }]);
    expect(await session.undo()).toMatchObject({
      leafId: compacted,
      editorText: "What about the south wall?",
    });
    expect((await session.undo()).leafId).not.toBe(compacted);
    expect((await session.undo()).editorText).toMatch(/^Question 4\. /);
  });

  test("one that came because the context was long is passed over, to the prompt before it", async () => {
    const { session } = await plant();
    expect((await session.compact({ reason: "threshold" })).eligible).toBe(true);
    expect((await session.undo()).editorText).toMatch(/^Question 4\. /);
  });
});
