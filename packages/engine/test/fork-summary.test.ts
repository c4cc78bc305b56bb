import { type ForkResult, openSession, type Session } from "@espalier/engine";
import { branchSummary, type SessionStore } from "@espalier/session-tree";
import { failingAnswer, hangingAnswer, scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import { addedSince, billed, bytesOf, plant, soundAnswer } from "./build-session.ts";

async function planted(options: Parameters<typeof plant>[0] = {}) {
  const summarizer = scriptedSummarizer((request) => ({ text: soundAnswer(request), usage: billed(10) }));
  const made = await plant({ summarizer, ...options });
  return { ...made, summarizer, path: made.session.getBranch() };
}

async function opened(store: SessionStore, { file }: ForkResult): Promise<Session> {
  return openSession({ file }, { store, mode: "read" });
}

describe("a fork with a summary", () => {
  test("has it as the first entry after the copied path, and then the labels", async () => {
    const { session, store, path } = await planted();
    await session.label(path[3]!.id, "turning point");
    await session.rename("shed");
    const before = bytesOf(session);
    const result = await session.fork(path[7]!.id, { summarize: true, instructions: "Mind the tests." });
    expect(bytesOf(session).equals(before)).toBe(true);
    const fork = await opened(store, result);
    const entries = fork.getEntries();
    expect(entries.map(({ id }) => id).slice(0, 8)).toEqual(path.slice(0, 8).map(({ id }) => id));
    expect(entries.slice(8).map(({ type }) => type)).toEqual(["branch_summary", "label", "session_info"]);
    const summary = entries[8]!;
    if (!branchSummary.is(summary)) throw new Error("no summary");
    expect(summary).toMatchObject({
      parentId: path[7]!.id,
      fromId: path.at(-1)!.id,
      usage: { input: 10 },
      details: { readFiles: ["3-1.ts", "4-1.ts"], source: "scripted" },
    });
    expect(result).toMatchObject({ leafId: summary.id, summaryEntryId: summary.id, selectedText: null });
    expect(fork.leafId).toBe(summary.id);
    expect(fork.getLabel(path[3]!.id)).toBe("turning point");
    expect(fork.name).toBe("shed");
    expect(entries[9]!.parentId).toBe(summary.id);
  });

  test("before a prompt returns its text and does not count it as left out", async () => {
    const { session, store, path, summarizer } = await planted();
    const result = await session.fork(path[12]!.id, { position: "before", summarize: true });
    expect(result.selectedText).toMatch(/^Question 4\. /);
    const told = JSON.stringify(summarizer.requests[0]!.messages);
    expect(told).not.toContain("Question 4.");
    expect(told).toContain("Answer 4.");
    expect((await opened(store, result)).getBranch().at(-1)).toMatchObject({ type: "branch_summary" });
    await session.fork(path[11]!.id, { position: "before", summarize: true });
    expect(JSON.stringify(summarizer.requests[1]!.messages)).toContain("Answer 3.");
  });

  test("at the leaf leaves nothing out: no summary", async () => {
    const { session, store, path } = await planted();
    const result = await session.fork(path.at(-1)!.id, { summarize: true });
    expect(result.summaryEntryId).toBeNull();
    expect((await opened(store, result)).getEntries()).toHaveLength(16);
  });

  test("that fails or is aborted creates no session, and leaves the bill in the source session", async () => {
    const { session, store, path } = await planted();
    const before = bytesOf(session);
    const failing = scriptedSummarizer(failingAnswer("unauthorized", billed(10)));
    await expect(
      session.fork(path[3]!.id, { summarize: true, summarizer: failing, fallback: false }),
    ).rejects.toMatchObject({ code: "unauthorized" });
    expect(addedSince(session, before)).toMatchObject([{ type: "usage", usage: { input: 10 } }]);
    const hanging = scriptedSummarizer(hangingAnswer("for-ever"));
    await expect(
      session.fork(path[3]!.id, { summarize: true, summarizer: hanging, signal: AbortSignal.timeout(20) }),
    ).rejects.toMatchObject({ code: "aborted" });
    const sessions = [];
    for await (const listing of store.list()) sessions.push(listing);
    expect(sessions).toHaveLength(1);
  });

  test("that cannot be written is billed too", async () => {
    const { session, path } = await planted();
    const before = bytesOf(session);
    const out = session.file;
    await expect(session.fork(path[3]!.id, { summarize: true, out })).rejects.toMatchObject({
      code: "exists",
    });
    expect(addedSince(session, before)).toMatchObject([{ type: "usage", usage: { input: 10 } }]);
  });

  test("passes the new entries through the handlers that redact", async () => {
    const { session, store, path } = await planted({
      extensions: [
        (api) => {
          api.on("entry_before_append", ({ entry }) => {
            if (entry.type === "branch_summary") Object.assign(entry, { summary: "[redacted]" });
          });
        },
      ],
    });
    const result = await session.fork(path[7]!.id, { summarize: true });
    expect((await opened(store, result)).context.messages.at(-1)).toMatchObject({ summary: "[redacted]" });
  });
});
