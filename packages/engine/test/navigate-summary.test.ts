import { type NavigateResult, openSession, type Session } from "@espalier/engine";
import { branchSummary } from "@espalier/session-tree";
import {
  failingAnswer,
  hangingAnswer,
  refusingAnswer,
  scriptedSummarizer,
} from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { addedSince, billed, bytesOf, contextOf, plant, soundAnswer, turn } from "./build-session.ts";

/** A session of four turns, and a summarizer that remembers what it was asked. */
async function planted(options: Parameters<typeof plant>[0] = {}) {
  const summarizer = scriptedSummarizer((request) => ({ text: soundAnswer(request), usage: billed(10) }));
  const made = await plant({ summarizer, ...options });
  const told = () => summarizer.requests.at(-1)?.messages.map((message) => JSON.stringify(message)) ?? [];
  return { ...made, summarizer, told, path: made.session.getBranch() };
}

const summaryOf = (session: Session, { summaryEntryId }: NavigateResult) => {
  const entry = session.getEntry(summaryEntryId!)!;
  if (!branchSummary.is(entry)) throw new Error("not a branch summary");
  return entry;
};

describe("navigating with a summary", () => {
  test("moves the leaf and writes the summary of the abandoned branch there, in one append", async () => {
    const { session, store, path, told, summarizer } = await planted();
    const [target, oldLeafId] = [path[7]!.id, session.leafId];
    const before = bytesOf(session);
    const result = await session.navigate(target, { summarize: true, instructions: "Mind the tests." });
    expect(addedSince(session, before).map(({ type }) => type)).toEqual(["branch_summary"]);
    expect(result).toMatchObject({ leafId: result.summaryEntryId, editorText: null });
    expect(summaryOf(session, result)).toMatchObject({
      parentId: target,
      fromId: oldLeafId,
      usage: { input: 10 },
      details: {
        source: "scripted",
        readFiles: ["3-1.ts", "4-1.ts"],
        modifiedFiles: [],
        covered: { firstEntryId: path[8]!.id, lastEntryId: oldLeafId },
        omitted: null,
      },
    });
    expect(summaryOf(session, result).summary).toMatch(/<read-files>\n3-1\.ts\n4-1\.ts\n<\/read-files>$/);
    expect(told()).toHaveLength(8);
    expect(summarizer.requests[0]).toMatchObject({
      purpose: "branch",
      customInstructions: "Mind the tests.",
    });
    const context = await contextOf(session, store);
    expect(context.messages.at(-1)).toMatchObject({ role: "branchSummary", fromId: oldLeafId });
    expect(context.messages).toHaveLength(9);
  });

  test("to a user message returns its text, and does not count it as abandoned", async () => {
    const { session, path, told } = await planted();
    const result = await session.navigate(path[8]!.id, { summarize: true });
    expect(result.editorText).toMatch(/^Question 3\. /);
    expect(summaryOf(session, result).parentId).toBe(path[7]!.id);
    expect(told().join("")).not.toContain("Question 3.");
    expect(told().join("")).toContain("Question 4.");
  });

  test("to the prompt that is the leaf has nothing to summarize: the text is returned, without an entry", async () => {
    const { session, path, summarizer } = await planted();
    const [asked] = await session.appendMessages([{ role: "user", content: "What now?" }]);
    const result = await session.navigate(asked!.id, { summarize: true });
    expect(result).toEqual({
      leafId: path.at(-1)!.id,
      summaryEntryId: null,
      editorText: "What now?",
    });
    expect(summarizer.requests).toEqual([]);
  });

  test("before the first entry, and to another root", async () => {
    const { session, store, path, told } = await planted({ turns: 2 });
    const result = await session.navigate(null, { summarize: true });
    expect(summaryOf(session, result).parentId).toBeNull();
    expect(told()).toHaveLength(8);
    expect((await contextOf(session, store)).messages).toHaveLength(1);
    await session.appendMessages(turn("at the root"));
    const back = await session.navigate(path.at(-1)!.id, { summarize: true });
    expect(summaryOf(session, back).parentId).toBe(path.at(-1)!.id);
    // The summary at the other root tells too.
    expect(told()).toHaveLength(5);
  });

  test("across a compaction includes its messages once", async () => {
    const { session, path, told } = await planted();
    await session.compact();
    await session.appendMessages(turn("5"));
    await session.navigate(path[3]!.id, { summarize: true });
    expect(told()).toHaveLength(16);
    expect(told().join("")).not.toContain("compactionSummary");
    for (const name of [2, 3, 4, 5])
      expect(told().filter((said) => said.includes(`Question ${name}.`))).toHaveLength(1);
  });

  test("across a compaction whose messages do not fit includes its summary", async () => {
    const { session, path, told } = await planted();
    await session.compact();
    await session.appendMessages(turn("5"));
    const small = { summarizer: scriptedSummarizer(soundAnswer), summarize: true };
    Object.assign(session.options.compaction!, { contextWindow: 700, reserveTokens: 150 });
    const result = await session.navigate(path[3]!.id, small);
    const [first, ...rest] = small.summarizer.requests[0]!.messages;
    expect(first).toMatchObject({ role: "compactionSummary" });
    expect(JSON.stringify(rest)).not.toMatch(/Question [23]\./);
    expect(JSON.stringify(rest)).toContain("Question 5.");
    expect(told()).not.toEqual(rest);
    // Files are those of the whole branch all the same.
    expect(summaryOf(session, result).details).toMatchObject({
      readFiles: expect.arrayContaining(["2-1.ts", "3-1.ts", "5-1.ts"]),
    });
  });

  test("back over nothing but a compaction writes no entry: the target path has the covered messages", async () => {
    const { session, path, summarizer } = await planted();
    await session.compact();
    const asked = summarizer.requests.length;
    const result = await session.navigate(path.at(-1)!.id, { summarize: true });
    expect(result).toMatchObject({ leafId: path.at(-1)!.id, summaryEntryId: null });
    expect(summarizer.requests).toHaveLength(asked);
  });

  test("from a branch with only labels, names and settings writes no entry", async () => {
    const { session, path } = await planted();
    await session.label(session.leafId!, "here");
    await session.rename("a name");
    await session.append({ type: "thinking_level_change", thinkingLevel: "high" } as never);
    const result = await session.navigate(path.at(-1)!.id, { summarize: true });
    expect(result).toMatchObject({ leafId: path.at(-1)!.id, summaryEntryId: null });
  });

  test("lists the entries beyond the budget", async () => {
    const { session, path, told } = await planted();
    Object.assign(session.options.compaction!, { contextWindow: 700, reserveTokens: 400 });
    const result = await session.navigate(path[3]!.id, { summarize: true });
    const { omitted } = summaryOf(session, result).details as { omitted: { dropped: string[] } };
    expect(omitted.dropped.length).toBeGreaterThan(2);
    expect(omitted.dropped).toEqual(path.slice(4, 4 + omitted.dropped.length).map(({ id }) => id));
    expect(told()).toHaveLength(12 - omitted.dropped.length);
  });
});

describe("a summary that fails", () => {
  for (const [what, script, code] of [
    ["fails", failingAnswer("unauthorized", billed(10)), "unauthorized"],
    ["is refused", refusingAnswer(billed(5)), "refused"],
  ] as const)
    test(`because it ${what} does not move the leaf, and leaves the bill`, async () => {
      const { session, store, path } = await planted();
      const before = {
        bytes: bytesOf(session),
        context: await contextOf(session, store),
        leafId: session.leafId,
      };
      const options = { summarize: true, summarizer: scriptedSummarizer(script), fallback: false };
      await expect(session.navigate(path[3]!.id, options)).rejects.toMatchObject({ code });
      expect(session.leafId).toBe(before.leafId);
      expect(addedSince(session, before.bytes)).toMatchObject([
        { type: "usage", kind: "branch_summary", usage: { input: 10 } },
      ]);
      expect(await contextOf(session, store)).toEqual(before.context);
    });

  test("because it is aborted leaves nothing in the log", async () => {
    const { session, path } = await planted();
    const before = bytesOf(session);
    for (const how of ["until-aborted", "for-ever"] as const) {
      const summarizer = scriptedSummarizer(hangingAnswer(how));
      const signal = AbortSignal.timeout(20);
      await expect(
        session.navigate(path[3]!.id, { summarize: true, summarizer, signal }),
      ).rejects.toMatchObject({
        code: "aborted",
      });
    }
    await expect(session.navigate(path[3]!.id, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "aborted",
    });
    expect(bytesOf(session).equals(before)).toBe(true);
  });

  test("because it is aborted while handlers read its entry is billed, and the leaf stays", async () => {
    const abort = new AbortController();
    const { session, path } = await planted({
      extensions: [
        (api) => {
          api.on("entry_before_append", ({ entry }) => {
            if (entry.type === "branch_summary") abort.abort();
          });
        },
      ],
    });
    const { leafId } = session;
    const before = bytesOf(session);
    const running = session.navigate(path[3]!.id, { summarize: true, signal: abort.signal });
    await expect(running).rejects.toMatchObject({ code: "aborted" });
    expect(session.leafId).toBe(leafId);
    expect(addedSince(session, before)).toMatchObject([{ type: "usage", usage: { input: 10 } }]);
  });

  test("because the branch has grown is billed, asks no handler of its entry, and can be tried again", async () => {
    const asked: string[] = [];
    const { session, path } = await planted({
      extensions: [
        (api) => {
          api.on("entry_before_append", ({ entry }) => void asked.push(entry.type));
        },
      ],
    });
    const summarizer = scriptedSummarizer(async (request) => {
      await session.appendMessages([{ role: "user", content: "One thing more." }]);
      return { text: soundAnswer(request), usage: billed(10) };
    });
    const running = session.navigate(path[3]!.id, { summarize: true, summarizer });
    await expect(running).rejects.toMatchObject({ code: "stale" });
    expect(asked).not.toContain("branch_summary");
    expect(session.tree.entryAt(session.tree.lastRow)).toMatchObject({ type: "usage", usage: { input: 10 } });
    expect(session.context.messages.at(-1)).toMatchObject({ content: "One thing more." });
    expect(await session.navigate(path[3]!.id, { summarize: true })).toMatchObject({
      leafId: expect.any(String),
    });
  });

  test("falls back to the extractive one if that is requested", async () => {
    const { session, path } = await planted();
    const summarizer = scriptedSummarizer(failingAnswer("unauthorized", billed(10)));
    const result = await session.navigate(path[3]!.id, { summarize: true, summarizer, fallback: true });
    expect(summaryOf(session, result)).toMatchObject({
      usage: { input: 10 },
      details: { source: "extractive" },
    });
  });
});

describe("a label for the target", () => {
  test("is in the same append as the move, after it", async () => {
    const { session, path } = await planted();
    const before = bytesOf(session);
    await session.navigate(path[3]!.id, { label: "second try" });
    expect(addedSince(session, before)).toMatchObject([
      { type: "leaf", targetId: path[3]!.id },
      { type: "label", targetId: path[3]!.id, parentId: path[3]!.id, label: "second try" },
    ]);
    expect(session.leafId).toBe(path[3]!.id);
  });

  test("is on the summary if there is one", async () => {
    const { session, path } = await planted();
    const before = bytesOf(session);
    const { summaryEntryId } = await session.navigate(path[3]!.id, { summarize: true, label: "second try" });
    expect(addedSince(session, before).map(({ type }) => type)).toEqual(["branch_summary", "label"]);
    expect(session.getLabel(summaryEntryId!)).toBe("second try");
    expect(session.leafId).toBe(summaryEntryId);
  });

  test("is kept as one line, from any caller; a blank label is no label", async () => {
    const { session, store, path } = await planted({
      extensions: [(api) => void api.on("session_before_fork", () => ({ label: " third\n try " }))],
    });
    await session.navigate(path[3]!.id, { label: "second\n\ttry " });
    expect(session.getLabel(path[3]!.id)).toBe("second try");
    await session.navigate(path[7]!.id);
    expect(session.getLabel(path[7]!.id)).toBe("third try");
    const { file } = await session.fork(path[5]!.id);
    const fork = await openSession({ file }, { store, mode: "read" });
    expect(fork.getLabel(path[5]!.id)).toBe("third try");
    await session.navigate(path[9]!.id, { label: " \n" });
    expect(session.getLabel(path[9]!.id)).toBeUndefined();
  });

  test("is set even if the target has a label already", async () => {
    const { session } = await planted();
    const before = bytesOf(session);
    await session.navigate(session.leafId, { label: "here" });
    expect(addedSince(session, before).map(({ type }) => type)).toEqual(["label"]);
    await session.navigate(session.leafId);
    expect(addedSince(session, before)).toHaveLength(1);
  });
});

describe("undo of a navigation", () => {
  test("reverses a navigation with a summary as a whole, and then the earlier prompts", async () => {
    const { session, store, path } = await planted();
    const before = await contextOf(session, store);
    await session.navigate(path[3]!.id, { summarize: true, label: "second try" });
    expect(await session.undo()).toMatchObject({ leafId: path.at(-1)!.id, editorText: null });
    expect(await contextOf(session, store)).toEqual(before);
    expect((await session.undo()).editorText).toMatch(/^Question 4\. /);
  });

  test("leaves a summary to which a later navigation can return", async () => {
    const { session, path } = await planted();
    const { summaryEntryId } = await session.navigate(path[3]!.id, { summarize: true });
    await session.undo();
    await session.navigate(summaryEntryId);
    expect(session.context.messages.at(-1)).toMatchObject({ role: "branchSummary" });
  });
});

test("requests of a long branch are sent one by one if the server takes one at a time", async () => {
  const summarizer = scriptedSummarizer(
    async (request) => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      return soundAnswer(request);
    },
    { contextWindow: 6_000 },
  );
  const { session } = await plant({ turns: 1, summarizer, concurrency: 1 });
  const path = session.getBranch();
  for (let at = 2; at < 30; at++) await session.appendMessages(turn(`${at}`, { size: 300 }));
  await session.navigate(path.at(-1)!.id, { summarize: true });
  expect(summarizer.requests.length).toBeGreaterThan(3);
  expect(summarizer.maxInFlight).toBe(1);
});
