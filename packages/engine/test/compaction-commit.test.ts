import { addRule, dropRule, openSession, rulesOf, type Session } from "@espalier/engine";
import { anthropicFormat, buildRequest, contextEdit, isMessage } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { describe, expect, test } from "vitest";
import {
  addedSince,
  billed,
  bytesOf,
  contextOf,
  listen,
  plant,
  soundAnswer,
  turn,
  words,
} from "./build-session.ts";

/** A summarizer that says when it was asked, and answers when it is told to. */
function heldSummarizer() {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const summarizer = scriptedSummarizer(async (request) => {
    asked();
    await held;
    return { text: soundAnswer(request), usage: billed(10) };
  });
  return { summarizer, isAsked, release };
}

const users = (session: Session) =>
  session.context.messages.flatMap((message) => (message.role === "user" ? [String(message.content)] : []));

describe("while a summary is generated", () => {
  test("appended entries are kept, and recorded as kept", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { session, store } = await plant({ summarizer });
    const running = session.compact();
    await isAsked;
    const grown = await session.appendMessages(turn("meanwhile"));
    release();
    const result = await running;
    if (!result.eligible) throw new Error(result.reason);
    expect(users(session).map((text) => text.slice(0, 18))).toEqual([
      "Question 4. xxxxxx",
      "Question meanwhile",
    ]);
    expect(session.getEntry(result.entryId)).toMatchObject({
      parentId: grown.at(-1)!.id,
      details: { kept: { lastEntryId: grown.at(-1)!.id, messages: 8 }, covered: { messages: 12 } },
    });
    await contextOf(session, store);
  });

  test("leaving the branch prevents the compaction: only the bill is written", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { heard, extension } = listen();
    const { session } = await plant({ summarizer, extensions: [extension] });
    const [first, second] = session.getBranch();
    const running = session.compact();
    await isAsked;
    await session.navigate(second!.id);
    const before = bytesOf(session);
    release();
    await expect(running).rejects.toMatchObject({ code: "stale" });
    expect(addedSince(session, before)).toMatchObject([{ type: "usage", usage: { input: 10 } }]);
    expect(session.leafId).toBe(second!.id);
    expect(heard.failed).toMatchObject([{ outcome: "skipped" }]);
    expect(session.context.sources).toEqual([first!.id, second!.id]);
  });

  test("a move to a descendant of the plan's leaf changes nothing", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { session } = await plant({ summarizer });
    const planned = session.leafId!;
    const running = session.compact();
    await isAsked;
    await session.appendMessages(turn("one way"));
    await session.navigate(planned);
    await session.appendMessages(turn("the other"));
    release();
    expect(await running).toMatchObject({ eligible: true });
    expect(users(session).at(-1)).toContain("the other");
    expect(session.context.messages[0]).toMatchObject({ role: "compactionSummary" });
  });

  test("another compaction that is written first is used", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { session } = await plant({ summarizer });
    const running = session.compact();
    await isAsked;
    const other = await session.appendCompaction("By hand.", session.leafId!, 1);
    const before = bytesOf(session);
    release();
    await expect(running).rejects.toMatchObject({ code: "stale" });
    expect(addedSince(session, before).map(({ type }) => type)).toEqual(["usage"]);
    expect(session.leafId).toBe(other);
  });

  test("an automatic compaction joins the running one, and a command is refused", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { heard, extension } = listen();
    const { session } = await plant({ summarizer, extensions: [extension] });
    const first = session.compact();
    await isAsked;
    expect(session.isCompacting).toBe(true);
    const joined = session.compact({ reason: "threshold" });
    await expect(session.compact()).rejects.toMatchObject({ code: "already-running" });
    release();
    expect(await joined).toBe(await first);
    expect(heard).toMatchObject({ before: 1, failed: [] });
    expect(session.getBranch().filter(({ type }) => type === "compaction")).toHaveLength(1);
  });

  test("an entry that is pinned meanwhile is in the summary, and one that is unpinned is not", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { session, store } = await plant({ summarizer });
    const [first, second] = session.getBranch().filter((entry) => isMessage(entry, "user"));
    await session.pin(second!.id);
    const running = session.compact();
    await isAsked;
    await session.pin(first!.id);
    await session.pin(second!.id, false);
    release();
    const result = await running;
    if (!result.eligible) throw new Error(result.reason);
    expect(result.summary).toContain(`<pinned>\n[${first!.id}] Question 1. `);
    expect(result.summary).not.toContain(second!.id);
    expect(result.tokensAfter).toBe((await contextOf(session, store)).tokens);
  });

  test("a rule that is dropped meanwhile is not in the summary, and one that is added is", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { session } = await plant({ summarizer });
    await addRule(session, "Never push to main.");
    for (const name of ["5", "6"]) await session.appendMessages(turn(name));
    const running = session.compact();
    await isAsked;
    await dropRule(session, rulesOf(session)[0]!.id);
    await addRule(session, "Always water the pears.");
    release();
    const result = await running;
    if (!result.eligible) throw new Error(result.reason);
    expect(result.summary).toContain("- Always water the pears.\n</rules>");
    expect(result.summary).not.toContain("Never push");
  });

  test("a kept result that is hidden meanwhile stays hidden, even if the plan shortens it", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { session } = await plant({
      turns: 12,
      summarizer,
      compaction: { contextWindow: 3_000, reserveTokens: 300, keepRecentTokens: 100 },
    });
    const [, call, result] = turn("large", { size: 4_000 });
    const [, , large] = await session.appendMessages([{ role: "user", content: "Look." }, call!, result!]);
    const running = session.compact();
    await isAsked;
    await session.hide(large!.id);
    release();
    expect(await running).toMatchObject({ eligible: true });
    expect(session.context.sources).not.toContain(large!.id);
  });

  test("a result of a call that the plan summarizes prevents the compaction: no model would read it", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { session } = await plant({ summarizer, compaction: { keepRecentTokens: 60 } });
    const calls = ["c1", "c2"].map((id) => ({ type: "toolCall", id, name: "read", arguments: {} }));
    await session.appendMessages([
      { role: "assistant", content: calls },
      { role: "toolResult", toolCallId: "c1", content: "One." },
      { role: "custom", content: `A note beside. ${words(60)}` },
    ]);
    const running = session.compact();
    await isAsked;
    await session.appendMessages([{ role: "toolResult", toolCallId: "c2", content: "Two." }]);
    release();
    await expect(running).rejects.toMatchObject({ code: "stale" });
    expect(JSON.stringify(buildRequest(session.context, { format: anthropicFormat }))).toContain("Two.");
  });

  test("closing waits for it", async () => {
    const { summarizer, isAsked, release } = heldSummarizer();
    const { heard, extension } = listen();
    const { session } = await plant({ summarizer, extensions: [extension] });
    const running = session.compact();
    await isAsked;
    setTimeout(release, 10);
    await session.close();
    expect(await running).toMatchObject({ eligible: true });
    expect(heard.committed).toHaveLength(1);
  });
});

describe("directly before the write of a compaction", () => {
  /** A session in which an append is under way, and a compaction that keeps nothing waits for its turn behind it. */
  async function behindAnAppend(act: { signal?: AbortSignal } = {}) {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { session, store } = await plant({
      extensions: [
        (api) => {
          api.on("session_before_compact", ({ compactionId }) => ({
            compaction: { summary: "All of it.", firstKeptEntryId: compactionId, usage: billed(3) },
          }));
          api.on("entry_before_append", async ({ entry }) => {
            if (JSON.stringify(entry).includes("Me too!")) await held;
          });
        },
      ],
    });
    const appending = session.appendMessages([{ role: "user", content: "Me too!" }]);
    const running = session.compact(act).then(
      (result) => ({ result, error: undefined }),
      (error: unknown) => ({ result: undefined, error }),
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    return { session, store, appending, running, release };
  }

  test("an earlier append is kept, even by a compaction that keeps nothing", async () => {
    const { session, store, appending, running, release } = await behindAnAppend();
    release();
    const [said] = await appending;
    const { result } = await running;
    expect(result).toMatchObject({ eligible: true, firstKeptEntryId: said!.id });
    expect((await contextOf(session, store)).messages).toMatchObject([
      { role: "compactionSummary", summary: "All of it." },
      { role: "user", content: "Me too!" },
    ]);
  });

  test("an abort during the wait ends the compaction", async () => {
    const abort = new AbortController();
    const { session, appending, running, release } = await behindAnAppend({ signal: abort.signal });
    const before = bytesOf(session);
    abort.abort();
    release();
    await appending;
    expect((await running).error).toMatchObject({ code: "aborted" });
    // Nobody was asked but the extension, which has no name.
    expect(addedSince(session, before)).toMatchObject([
      { type: "message" },
      { type: "usage", provider: "inline extension 1", usage: { input: 3 } },
    ]);
  });

  test("an abort while handlers read the entry ends the compaction: none of it is written", async () => {
    const abort = new AbortController();
    const { session } = await plant({
      extensions: [
        (api) => {
          api.on("entry_before_append", ({ entry }) => {
            if (entry.type === "compaction") abort.abort();
          });
        },
      ],
    });
    const before = bytesOf(session);
    await expect(session.compact({ signal: abort.signal })).rejects.toMatchObject({ code: "aborted" });
    expect(addedSince(session, before)).toEqual([]);
  });

  test("an abort after the write changes nothing", async () => {
    const abort = new AbortController();
    const { heard, extension } = listen();
    const { session } = await plant({ extensions: [extension] });
    session.subscribe((change) => {
      if (change.type === "appended") abort.abort();
    });
    const result = await session.compact({ signal: abort.signal });
    expect(result).toMatchObject({ eligible: true });
    expect(heard).toMatchObject({ failed: [] });
    expect(heard.committed).toHaveLength(1);
  });

  test("the reported entry includes the changes of extensions", async () => {
    const { session } = await plant({
      extensions: [
        (api) => {
          api.on("entry_before_append", (event) => {
            if (event.entry.type === "compaction") Object.assign(event.entry, { summary: "[redacted]" });
          });
        },
      ],
    });
    expect(await session.compact()).toMatchObject({ summary: "[redacted]" });
    expect(session.context.messages[0]).toMatchObject({ summary: "[redacted]" });
  });
});

describe("a written compaction", () => {
  test("records its ranges, sizes and cost, and the context matches the record", async () => {
    const { session, store } = await plant({ summarizer: scriptedSummarizer(soundAnswer) });
    await session.append({ type: "model_change", provider: "anthropic", modelId: "claude-test" } as never);
    const path = session.getBranch();
    const before = session.context.tokens;
    const result = await session.compact();
    if (!result.eligible) throw new Error(result.reason);
    const context = await contextOf(session, store);
    expect(result.tokensAfter).toBe(context.tokens);
    expect(session.getEntry(result.entryId)).toMatchObject({
      type: "compaction",
      firstKeptEntryId: path[12]!.id,
      tokensBefore: before,
      details: {
        reason: "manual",
        policy: "token-budget",
        source: "scripted",
        model: { provider: "scripted", modelId: "scripted" },
        covered: { firstEntryId: path[0]!.id, lastEntryId: path[11]!.id, messages: 12 },
        kept: { firstEntryId: path[12]!.id, lastEntryId: path[15]!.id, messages: 4 },
        tokensBefore: before,
        tokensAfter: context.tokens,
        isSplitTurn: false,
        durationMs: expect.any(Number),
        readFiles: ["1-1.ts", "2-1.ts", "3-1.ts"],
        modifiedFiles: [],
        omitted: {},
        automaticInARow: 0,
        pinned: [],
        settings: { provider: "anthropic", modelId: "claude-test", thinkingLevel: "off" },
      },
    });
  });

  test("keeps a system prompt of the session in the context", async () => {
    const { session, store } = await plant({ turns: 0 });
    const system = (fields: object) =>
      session.append({
        type: "message",
        message: { role: "system", content: "", timestamp: 1, ...fields },
      } as never);
    await system({
      sections: { preamble: "You are a gardener.", tone: "calm" },
      toolsAdded: [{ name: "dig" }],
    });
    for (const name of ["1", "2", "3", "4"]) await session.appendMessages(turn(name));
    await system({ sections: { tone: null }, toolsAdded: [{ name: "prune" }] });
    await session.appendMessages(turn("5"));
    for (let round = 0; round < 2; round++) {
      expect(await session.compact({ settings: { keepRecentTokens: 60 } })).toMatchObject({ eligible: true });
      expect((await contextOf(session, store)).messages[0]).toMatchObject({
        role: "system",
        sections: { preamble: "You are a gardener." },
        toolsAdded: [{ name: "dig" }, { name: "prune" }],
      });
      await session.appendMessages(turn("6"));
    }
  });

  test("does not change the earlier context: navigating back before it restores it", async () => {
    const { session } = await plant();
    const before = { leafId: session.leafId, context: structuredClone(session.context) };
    await session.compact();
    await session.navigate(before.leafId);
    expect(session.context).toEqual(before.context);
  });

  test("is not written if there is nothing to compact, and the result says so", async () => {
    const { heard, extension } = listen();
    const { session } = await plant({ turns: 1, extensions: [extension] });
    const before = bytesOf(session);
    expect(await session.compact({ settings: { keepRecentTokens: 10_000 } })).toEqual({
      eligible: false,
      reason: expect.stringContaining("Nothing to compact"),
    });
    expect(bytesOf(session).equals(before)).toBe(true);
    expect(heard.before).toBe(0);
    expect(session.isCompacting).toBe(false);
  });

  test("has pinned entries word for word, with their edits, until they are unpinned", async () => {
    const { session } = await plant();
    const [question] = session.getBranch().filter((entry) => isMessage(entry, "user"));
    const compactWith = async (round: string) => {
      await session.appendMessages(turn(round));
      const result = await session.compact({ settings: { keepRecentTokens: 60 } });
      if (!result.eligible) throw new Error(result.reason);
      return result.summary;
    };
    await session.pin(question!.id);
    for (const round of ["5", "6", "7"])
      expect(await compactWith(round)).toContain(`<pinned>\n[${question!.id}] Question 1. `);
    await session.append(contextEdit.of({ targetId: question!.id, replacement: { content: "Only this." } }));
    expect(await compactWith("8")).toContain(`<pinned>\n[${question!.id}] Only this.\n</pinned>`);
    await session.pin(question!.id, false);
    expect(await compactWith("9")).not.toContain("<pinned>");
  });

  test("is not prevented by an invalid pinned entry", async () => {
    const { session, store } = await plant();
    await session.pin(session.leafId!);
    await session.close();
    const lines = Buffer.from(bytesOf(session)).toString().trimEnd().split("\n");
    const pinned = lines.findLastIndex((line) => line.includes("Answer 4"));
    lines[pinned] = lines[pinned]!.replace('"message":{', '"msg":{');
    const { file } = session;
    await store.delete({ file });
    await (await store.create(lines[0]!, lines.slice(1), file)).close();
    const damaged = await openSession({ file }, { store, compaction: { keepRecentTokens: 60 } });
    expect(await damaged.compact()).toMatchObject({ eligible: true });
    await damaged.close();
  });
});
