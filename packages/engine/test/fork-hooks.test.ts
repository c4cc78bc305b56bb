import type { BeforeForkEvent } from "@espalier/branch-summary";
import { defineExtension, type Extension, openSession } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { branchSummary } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { billed, bytesOf, plant, soundAnswer } from "./build-session.ts";

type Answer = (
  event: BeforeForkEvent & { type: string; preparation?: unknown },
) => object | undefined | Promise<undefined>;

function leaving(name: string, answer: Answer, hook = "session_before_fork", options = {}): Extension {
  const extension: Extension = (api) => {
    api.on(hook as "session_before_fork", answer as never, options);
  };
  return Object.defineProperty(extension, "name", { value: name });
}

async function planted(...extensions: Extension[]) {
  const summarizer = scriptedSummarizer(soundAnswer);
  const made = await plant({ turns: 3, summarizer, extensions });
  return { ...made, summarizer, path: made.session.getBranch() };
}

const summaryAt = (session: { getEntry(id: string): unknown }, id: string | null) => {
  const entry = session.getEntry(id ?? "") as Parameters<typeof branchSummary.is>[0];
  if (!entry || !branchSummary.is(entry)) throw new Error("no summary");
  return entry;
};

describe("before a branch is left", () => {
  test("a handler gets the source, the target and the abandoned entries", async () => {
    const shown: unknown[] = [];
    const { session, path } = await planted(
      leaving("curious", (event) => {
        shown.push({ ...event, entriesToSummarize: event.entriesToSummarize.length });
        return undefined;
      }),
    );
    const oldLeafId = session.leafId;
    const common = { oldLeafId, commonAncestorId: path[3]!.id, entriesToSummarize: 8 };
    await session.fork(path[3]!.id);
    await session.navigate(path[3]!.id, { summarize: true });
    expect(shown).toEqual([
      {
        type: "session_before_fork",
        kind: "fork",
        targetId: path[3]!.id,
        entryId: path[3]!.id,
        position: "at",
        userWantsSummary: false,
        signal: expect.any(AbortSignal),
        ...common,
      },
      {
        type: "session_before_fork",
        kind: "navigate",
        targetId: path[3]!.id,
        entryId: path[3]!.id,
        position: "at",
        userWantsSummary: true,
        signal: expect.any(AbortSignal),
        ...common,
      },
    ]);
  });

  test("a veto is the same typed error for navigation, fork and compaction, with extension and reason", async () => {
    const { session, path } = await planted(
      leaving("cautious", () => ({ cancel: true, reason: "not now" })),
      defineExtension("cautious", (api) => {
        api.on("session_before_compact", () => ({ cancel: true, reason: "not now" }));
      }),
    );
    const before = bytesOf(session);
    const vetoed = async (act: Promise<unknown>, what: string) => {
      const error = await act.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(EspalierError);
      expect(error).toMatchObject({ code: "cancelled", by: "cautious", reason: "not now" });
      expect((error as Error).message).toBe(`The ${what} was cancelled by cautious: not now`);
    };
    await vetoed(session.navigate(path[3]!.id), "navigation");
    await vetoed(session.fork(path[3]!.id), "fork");
    await vetoed(session.compact(), "compaction");
    expect(bytesOf(session).equals(before)).toBe(true);
    expect(await session.undo()).not.toHaveProperty("cancelled");
  });

  test("a summary that no caller requested is reported", async () => {
    const { session, path, reports } = await planted(
      leaving("own", () => ({ summary: { summary: "Three dead ends." } })),
    );
    const unused = {
      kind: "unused-answer",
      owners: ["own"],
      hook: "session_before_fork",
      message: expect.stringMatching(/^The summary that own gave .* not written: no summary was requested/),
    };
    await session.fork(path[3]!.id);
    expect(reports).toEqual([unused]);
    await session.navigate(path[3]!.id);
    expect(reports).toEqual([unused, unused]);
    await session.fork(session.leafId!, { summarize: true });
    expect(reports[2]!.message).toContain("the abandoned branch has nothing to summarize");
  });

  test("an extension without a name is reported by its path, one with a name by that name", async () => {
    const vetoing: Extension = (api) => void api.on("session_before_fork", () => ({ cancel: true }));
    const unnamed = Object.defineProperty(((api) => vetoing(api)) as Extension, "name", { value: "" });
    const named = defineExtension("careful", vetoing);
    for (const [extension, by] of [
      [unnamed, "inline extension 2"],
      [named, "careful"],
    ] as const) {
      const { session, path } = await planted(() => {}, extension);
      await expect(session.navigate(path[3]!.id)).rejects.toMatchObject({ by });
    }
  });

  test("a handler can write the summary, which is used only if one is requested", async () => {
    const { session, store, path, summarizer } = await planted(
      leaving("own", () => ({
        summary: { summary: "Three dead ends.", details: { attempts: 3 }, usage: billed(2) },
      })),
    );
    const fork = await session.fork(path[3]!.id, { summarize: true });
    const forked = await openSession({ file: fork.file }, { store, mode: "read" });
    const expected = {
      summary: "Three dead ends.",
      fromHook: true,
      usage: { input: 2 },
      details: { attempts: 3, source: "extension", readFiles: ["2-1.ts", "3-1.ts"] },
    };
    expect(summaryAt(forked, fork.summaryEntryId)).toMatchObject(expected);
    const { summaryEntryId } = await session.navigate(path[3]!.id, { summarize: true });
    expect(summaryAt(session, summaryEntryId)).toMatchObject(expected);
    expect(await session.navigate(path[7]!.id)).toMatchObject({ summaryEntryId: null });
    expect(summarizer.requests).toEqual([]);
  });

  test("an invalid answer is refused with its owner's name, and the default is used", async () => {
    for (const answer of [
      { summary: {} },
      { summary: { summary: " " } },
      { summary: { summary: "x", usage: 7 } },
      { summary: { summary: "x", details: { at: new Date(0) } } },
      { label: 7 },
      { instructions: [] },
    ]) {
      const { session, path, reports } = await planted(leaving("wrong", () => answer));
      const { summaryEntryId } = await session.navigate(path[3]!.id, { summarize: true });
      expect(summaryAt(session, summaryEntryId)).not.toHaveProperty("fromHook");
      expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["wrong"] }]);
    }
  });

  test("a handler can append its state; the branch is summarized and left all the same", async () => {
    const { session, path } = await planted((api) => {
      const left = api.state<number>("left", { initial: 0 });
      api.on("session_before_fork", async () => void (await left.append(1)));
    });
    const { summaryEntryId } = await session.navigate(path[3]!.id, { summarize: true });
    const { fromId } = summaryAt(session, summaryEntryId);
    expect(session.getEntry(fromId)).toMatchObject({ customType: "left", parentId: path.at(-1)!.id });
  });

  test("instructions are added to the user's, or replace the prompt; a label is set at the target", async () => {
    const { session, path, summarizer } = await planted(
      leaving("a", () => ({ instructions: "Keep the ids.", label: "from a" })),
    );
    const { summaryEntryId } = await session.navigate(path[3]!.id, {
      summarize: true,
      instructions: "Be brief.",
    });
    expect(summarizer.requests[0]).toMatchObject({ customInstructions: "Be brief.\n\nKeep the ids." });
    expect(session.getLabel(summaryEntryId!)).toBe("from a");
    await session.navigate(path.at(-1)!.id, { label: "mine" });
    expect(session.getLabel(path.at(-1)!.id)).toBe("mine");

    const replacing = await planted(
      leaving("b", () => ({ instructions: "List failed attempts.", replaceInstructions: true })),
    );
    await replacing.session.navigate(replacing.path[3]!.id, { summarize: true });
    expect(replacing.summarizer.requests[0]).toMatchObject({
      instructions: "List failed attempts.",
      sections: [],
    });
    expect(replacing.summarizer.requests[0]).not.toHaveProperty("customInstructions");
  });

  test("a handler that never returns delays neither the session nor an abort", async () => {
    const never = () => new Promise<undefined>(() => {});
    const slow = await planted(leaving("slow", never, "session_before_fork", { timeoutMs: 20 }));
    expect(await slow.session.navigate(slow.path[3]!.id)).toMatchObject({ leafId: slow.path[3]!.id });
    expect(slow.reports).toMatchObject([{ kind: "timed-out" }]);
    const held = await planted(leaving("slow", never));
    const signal = AbortSignal.timeout(20);
    await expect(held.session.navigate(held.path[3]!.id, { signal })).rejects.toMatchObject({
      code: "aborted",
    });
    await expect(held.session.fork(held.path[3]!.id, { signal })).rejects.toMatchObject({ code: "aborted" });
    expect(held.session.leafId).toBe(held.path.at(-1)!.id);
  });
});

describe("Pi's names of these hooks", () => {
  test("are for navigation alone, with the event also under `preparation` and Pi's name for the instructions", async () => {
    const shown: string[] = [];
    const { session, path, summarizer } = await planted(
      leaving(
        "pi",
        ({ type, preparation }) => {
          const { targetId, entriesToSummarize } = preparation as BeforeForkEvent;
          shown.push(`${type} ${targetId} ${entriesToSummarize.length}`);
          return { customInstructions: "Keep the ids." };
        },
        "session_before_tree",
      ),
      (api) => {
        api.on("session_tree", (event) => void shown.push(`${event.type} ${event.newLeafId}`));
      },
    );
    await session.fork(path[3]!.id, { summarize: true });
    expect(shown).toEqual([]);
    const { leafId } = await session.navigate(path[3]!.id, { summarize: true });
    expect(shown).toEqual([`session_before_tree ${path[3]!.id} 8`, `session_tree ${leafId}`]);
    expect(summarizer.requests[1]).toMatchObject({ customInstructions: "Keep the ids." });
  });

  test("can give the summary and cancel like the hook itself", async () => {
    const own = await planted(
      leaving("pi", () => ({ summary: { summary: "By Pi." } }), "session_before_tree"),
    );
    const { summaryEntryId } = await own.session.navigate(own.path[3]!.id, { summarize: true });
    expect(summaryAt(own.session, summaryEntryId).summary).toBe("By Pi.");
    const no = await planted(leaving("pi", () => ({ cancel: true }), "session_before_tree"));
    await expect(no.session.navigate(no.path[3]!.id)).rejects.toMatchObject({ code: "cancelled", by: "pi" });
  });
});

test("an undo moves the leaf too, and extensions are notified", async () => {
  const told: object[] = [];
  const { session, path } = await planted((api) => {
    api.on("session_navigate", (event) => void told.push({ ...event }));
  });
  const leafId = session.leafId;
  await session.undo();
  expect(told).toMatchObject([
    {
      type: "session_navigate",
      oldLeafId: leafId,
      newLeafId: path[7]!.id,
      summaryEntryId: null,
      fromExtension: false,
    },
  ]);
});

test("extensions are notified once, afterwards", async () => {
  const told: object[] = [];
  const { session, path } = await planted((api) => {
    api.on("session_navigate", (event) => void told.push({ ...event }));
    api.on("session_fork", (event) => void told.push({ ...event }));
  });
  const oldLeafId = session.leafId;
  const fork = await session.fork(path[3]!.id);
  const { summaryEntryId } = await session.navigate(path[3]!.id, { summarize: true });
  expect(told).toMatchObject([
    { type: "session_fork", entryId: path[3]!.id, file: fork.file, id: fork.id, leafId: path[3]!.id },
    {
      type: "session_navigate",
      oldLeafId,
      newLeafId: summaryEntryId,
      summaryEntryId,
      fromExtension: false,
    },
  ]);
});
