import { openSession, type Session } from "@espalier/engine";
import { branchSummary } from "@espalier/session-tree";
import { failingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { addedSince, billed, bytesOf, contextOf, plant, soundAnswer, turn } from "./build-session.ts";

/** Two branches after a common turn: `main`, where the leaf is, and `side`. */
async function planted() {
  const summarizer = scriptedSummarizer((request) => ({ text: soundAnswer(request), usage: billed(10) }));
  const made = await plant({ turns: 1, summarizer });
  const { session } = made;
  const fork = session.leafId!;
  const side = (await session.appendMessages(turn("side"))).map(({ id }) => id);
  await session.navigate(fork);
  const main = (await session.appendMessages(turn("main"))).map(({ id }) => id);
  return { ...made, summarizer, fork, side, main };
}

const summaryAt = (session: Session, id: string) => {
  const entry = session.getEntry(id)!;
  if (!branchSummary.is(entry)) throw new Error("no summary");
  return entry;
};

describe("merging a branch", () => {
  test("adds its conclusion here, with its source", async () => {
    const { session, store, summarizer, fork, side, main } = await planted();
    const before = bytesOf(session);
    const { entryId, leafId } = await session.merge(side.at(-1)!);
    expect(leafId).toBe(entryId);
    expect(addedSince(session, before)).toHaveLength(1);
    expect(summaryAt(session, entryId)).toMatchObject({
      parentId: main.at(-1),
      fromId: side.at(-1),
      usage: { input: 10 },
      details: {
        merge: { commonAncestorId: fork, entryIds: side },
        readFiles: ["side-1.ts"],
        source: "scripted",
      },
    });
    expect(summarizer.requests[0]).toMatchObject({ purpose: "merge" });
    expect(summarizer.requests[0]!.messages).toHaveLength(side.length);
    const { messages } = await contextOf(session, store);
    expect(messages.at(-1)).toMatchObject({ role: "branchSummary" });
    expect(session.branches().map(({ leafId: end }) => end)).toContain(side.at(-1));
  });

  test("a second time writes nothing, also in a reopened session", async () => {
    const { session, store, side, summarizer } = await planted();
    const first = await session.merge(side.at(-1)!);
    await session.appendMessages(turn("after"));
    const before = bytesOf(session);
    expect(await session.merge(side.at(-1)!)).toEqual({ entryId: first.entryId, leafId: session.leafId });
    expect(bytesOf(session).equals(before)).toBe(true);
    const asked = summarizer.requests.length;
    await session.close();
    const again = await openSession({ file: session.file }, { store, summarizer });
    expect(await again.merge(side.at(-1)!)).toMatchObject({ entryId: first.entryId });
    expect(summarizer.requests).toHaveLength(asked);
  });

  test("that has grown adds the new part, and nothing twice", async () => {
    const { session, side, main, summarizer } = await planted();
    await session.merge(side.at(-1)!);
    const here = session.leafId!;
    await session.navigate(side.at(-1)!);
    const more = (await session.appendMessages(turn("more"))).map(({ id }) => id);
    await session.navigate(here);
    const { entryId } = await session.merge(more.at(-1)!);
    expect(summaryAt(session, entryId).details).toMatchObject({ merge: { entryIds: more } });
    expect(summarizer.requests.at(-1)!.messages).toHaveLength(more.length);
    expect(main).toHaveLength(4);
  });

  test("into another entry's branch does not move the leaf, and an undo skips it", async () => {
    const { session, store, side, main } = await planted();
    const before = { bytes: bytesOf(session), context: await contextOf(session, store) };
    const { entryId, leafId } = await session.merge(main.at(-1)!, { into: side.at(-1)! });
    expect(leafId).toBe(main.at(-1));
    expect(addedSince(session, before.bytes)).toMatchObject([
      { type: "branch_summary", parentId: side.at(-1), fromId: main.at(-1) },
      { type: "leaf", targetId: main.at(-1) },
    ]);
    expect(await contextOf(session, store)).toEqual(before.context);
    expect(session.contextAt(entryId).messages.at(-1)).toMatchObject({ role: "branchSummary" });
    expect((await session.undo()).editorText).toMatch(/^Question main/);
  });

  test("here is one act that an undo reverses and a redo repeats", async () => {
    const { session, side, main } = await planted();
    await session.merge(side.at(-1)!);
    const merged = session.leafId;
    expect(await session.undo()).toMatchObject({ leafId: main.at(-1) });
    expect(await session.redo()).toMatchObject({ leafId: merged, act: { kind: "summary" } });
    expect(await session.undo()).toMatchObject({ leafId: main.at(-1) });
  });

  test("that is already part of this path is an error, and nothing is requested", async () => {
    const { session, summarizer, fork, main } = await planted();
    for (const from of [fork, main.at(-1)!, main[0]!])
      await expect(session.merge(from)).rejects.toMatchObject({ code: "nothing-to-merge" });
    await expect(session.merge("nobody")).rejects.toMatchObject({ code: "unknown-entry" });
    expect(summarizer.requests).toEqual([]);
  });

  test("that fails leaves the bill", async () => {
    const { session, side } = await planted();
    const before = bytesOf(session);
    const failing = scriptedSummarizer(failingAnswer("unauthorized", billed(10)));
    await expect(session.merge(side.at(-1)!, { summarizer: failing, fallback: false })).rejects.toMatchObject(
      {
        code: "unauthorized",
      },
    );
    expect(addedSince(session, before)).toMatchObject([{ type: "usage", usage: { input: 10 } }]);
  });

  test("writes after entries appended in the meantime, and nothing if the leaf is on another branch", async () => {
    const { session, side, main, fork } = await planted();
    let meanwhile = async (): Promise<unknown> =>
      session.appendMessages([{ role: "user", content: "One thing more." }]);
    const slow = scriptedSummarizer(async (request) => {
      await meanwhile();
      return { text: soundAnswer(request), usage: billed(5) };
    });
    const { entryId, leafId } = await session.merge(side.at(-1)!, { summarizer: slow });
    expect(leafId).toBe(entryId);
    expect(session.context.messages.slice(-2)).toMatchObject([
      { content: "One thing more." },
      { role: "branchSummary" },
    ]);
    await session.navigate(main.at(-1)!);
    meanwhile = () => session.navigate(fork);
    await expect(session.merge(side.at(-1)!, { summarizer: slow })).rejects.toMatchObject({ code: "stale" });
    expect(session.tree.entryAt(session.tree.lastRow)).toMatchObject({ type: "usage", usage: { input: 5 } });
    expect(session.leafId).toBe(fork);
  });
});
