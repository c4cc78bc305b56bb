import type { BeforeCompactEvent } from "@espalier/compaction";
import type { Extension } from "@espalier/engine";
import { type CompactionEntry, isMessage } from "@espalier/session-tree";
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

type Answer = (event: BeforeCompactEvent) => object | undefined | Promise<object | undefined>;

/** An extension, by name, that answers before a compaction. */
function answering(name: string, answer: Answer, options: object = {}): Extension {
  const extension: Extension = (api) => {
    api.on("session_before_compact", (event) => answer(event as never) as never, options);
  };
  return Object.defineProperty(extension, "name", { value: name });
}

async function compactWith(...extensions: Extension[]) {
  const { heard, extension } = listen();
  const summarizer = scriptedSummarizer(soundAnswer);
  const planted = await plant({ turns: 4, summarizer, extensions: [...extensions, extension] });
  const before = {
    bytes: bytesOf(planted.session),
    context: await contextOf(planted.session, planted.store),
  };
  const ended = await planted.session.compact().then(
    (result) => ({ result, error: undefined }),
    (error: Error & { code: string; by?: string }) => ({ result: undefined, error }),
  );
  return { ...planted, ...ended, heard, summarizer, before };
}

describe("a handler can cancel", () => {
  test("and nothing is written or requested, and all listeners learn which extension cancelled", async () => {
    const { session, store, error, heard, summarizer, before } = await compactWith(
      answering("cautious", () => ({ cancel: true, reason: "a call is open" })),
    );
    expect(error).toMatchObject({ code: "cancelled", by: "cautious" });
    expect(error!.message).toContain("a call is open");
    expect(summarizer.requests).toEqual([]);
    expect(addedSince(session, before.bytes)).toEqual([]);
    expect(await contextOf(session, store)).toEqual(before.context);
    expect(heard.failed).toMatchObject([
      { outcome: "cancelled", by: "cautious", aborted: true, fromExtension: false },
    ]);
    expect(heard.failed[0]).not.toHaveProperty("errorMessage");
  });

  test("for any answers of other handlers", async () => {
    const { error } = await compactWith(
      answering("own", () => ({ compaction: { summary: "Mine." } })),
      answering("cautious", () => ({ cancel: true })),
    );
    expect(error).toMatchObject({ code: "cancelled", by: "cautious" });
  });

  test("by failing, if it is critical", async () => {
    const broken = answering("broken", () => Promise.reject(new Error("no disk")), { critical: true });
    const { error, heard } = await compactWith(broken);
    expect(error).toMatchObject({ code: "cancelled", by: "broken" });
    expect(heard.failed).toHaveLength(1);
    const skipped = await compactWith(answering("broken", () => Promise.reject(new Error("no disk"))));
    expect(skipped.result).toMatchObject({ eligible: true });
    expect(skipped.reports).toMatchObject([{ kind: "threw", owners: ["broken"] }]);
  });
});

describe("a handler can make the compaction", () => {
  test("with a summary alone; the rest comes from the plan, and the written entry is reported", async () => {
    const { session, store, result, heard, summarizer } = await compactWith(
      answering("own", () => ({
        compaction: { summary: "## Mine", details: { index: [1, 2] }, usage: billed(3) },
      })),
    );
    if (!result?.eligible) throw new Error("no compaction");
    expect(result).toMatchObject({ source: "extension", summary: "## Mine", usage: { input: 3 } });
    expect(summarizer.requests).toEqual([]);
    const entry = session.getEntry(result.entryId) as CompactionEntry;
    expect(entry).toMatchObject({
      fromHook: true,
      firstKeptEntryId: session.getBranch()[12]!.id,
      usage: { input: 3 },
      details: {
        index: [1, 2],
        source: "extension",
        model: null,
        readFiles: ["1-1.ts", "2-1.ts", "3-1.ts"],
        covered: { messages: 12 },
        kept: { messages: 4 },
      },
    });
    expect(heard).toMatchObject({
      before: 1,
      failed: [],
      committed: [{ fromExtension: true, reason: "manual" }],
    });
    const [announced] = heard.committed as { entry: unknown; compactionEntry: unknown }[];
    expect(announced!.entry).toBe(entry);
    expect(announced!.compactionEntry).toBe(entry);
    expect((await contextOf(session, store)).messages[0]).toMatchObject({ summary: "## Mine" });
  });

  test("and keep nothing, by the id that the compaction will have", async () => {
    const { session, result } = await compactWith(
      answering("own", ({ compactionId }) => ({
        compaction: { summary: "All.", firstKeptEntryId: compactionId },
      })),
    );
    if (!result?.eligible) throw new Error("no compaction");
    expect(result.firstKeptEntryId).toBe(result.entryId);
    expect(session.context.messages).toMatchObject([{ role: "compactionSummary", summary: "All." }]);
    expect(session.getEntry(result.entryId)).toMatchObject({
      details: { covered: { messages: 16 }, kept: { messages: 0, firstEntryId: null } },
    });
  });

  test("and keep less, or more: covered range and file lists follow", async () => {
    const { session, result } = await compactWith(
      answering("own", ({ branchEntries }) => ({
        compaction: {
          summary: "Less.",
          firstKeptEntryId: branchEntries.at(-1)!.id,
          details: { readFiles: ["own.ts"] },
        },
      })),
    );
    if (!result?.eligible) throw new Error("no compaction");
    expect(session.getEntry(result.entryId)).toMatchObject({
      details: {
        covered: { messages: 15 },
        kept: { messages: 1 },
        readFiles: ["1-1.ts", "2-1.ts", "3-1.ts", "4-1.ts", "own.ts"],
      },
    });
    const more = await compactWith(
      answering("own", ({ branchEntries }) => ({
        compaction: { summary: "More.", firstKeptEntryId: branchEntries[4]!.id },
      })),
    );
    expect(more.session.getBranch().at(-1)).toMatchObject({
      details: { covered: { messages: 4 }, kept: { messages: 12 }, readFiles: ["1-1.ts"] },
    });
  });

  test("and keep from an entry without content, which stays with the next one", async () => {
    const summarizer = scriptedSummarizer(soundAnswer);
    const note = { id: "" };
    const own = answering("own", () => ({ compaction: { summary: "Mine.", firstKeptEntryId: note.id } }));
    const { session } = await plant({ turns: 2, summarizer, extensions: [own] });
    note.id = (await session.append({ type: "custom", customType: "note", data: 1 } as never))[0]!.id;
    await session.appendMessages(turn("3"));
    const result = await session.compact();
    if (!result.eligible) throw new Error(result.reason);
    expect(result.source).toBe("extension");
    expect(session.getEntry(result.entryId)).toMatchObject({
      firstKeptEntryId: note.id,
      details: { covered: { messages: 8 }, kept: { messages: 4 } },
    });
  });

  test("and pinned entries of the user stay in the context", async () => {
    const own = answering("own", () => ({ compaction: { summary: "Mine." } }));
    const { session } = await plant({ turns: 4, extensions: [own] });
    const [question] = session.getBranch().filter((entry) => isMessage(entry, "user"));
    await session.pin(question!.id);
    expect(await session.compact()).toMatchObject({
      summary: expect.stringMatching(/^Mine\.\n\n<pinned>\n\[\w+\] Question 1\. x+\n<\/pinned>$/),
    });
  });

  test("and its file lists are kept in later compactions", async () => {
    let isFirst = true;
    const own = answering("own", () => {
      const answer = isFirst ? { compaction: { summary: "Mine." } } : undefined;
      isFirst = false;
      return answer;
    });
    const { session } = await plant({
      turns: 3,
      summarizer: scriptedSummarizer(soundAnswer),
      extensions: [own],
    });
    await session.compact();
    await session.appendMessages(turn("4"));
    const result = await session.compact();
    expect(result).toMatchObject({ summary: expect.stringContaining("1-1.ts\n2-1.ts\n3-1.ts") });
    expect(result).toMatchObject({ summary: expect.stringContaining("<goal>\nQuestion 1. ") });
  });
});

describe("an invalid answer is refused with its owner's name, and the default is used", () => {
  const illegal: [what: string, answer: Answer, why: string][] = [
    ["has no summary", () => ({ compaction: {} }), "`compaction.summary` is missing or empty"],
    [
      "has an empty summary",
      () => ({ compaction: { summary: " \n" } }),
      "`compaction.summary` is missing or empty",
    ],
    ["is no object", () => ({ compaction: "done" }), "`compaction` is not an object"],
    ["is not an answer", () => "yes" as never, "it is a string"],
    [
      "names an entry that nobody has",
      () => ({ compaction: { summary: "x", firstKeptEntryId: "nobody" } }),
      "is not on the path",
    ],
    [
      "keeps from a result on",
      ({ branchEntries }) => ({ compaction: { summary: "x", firstKeptEntryId: branchEntries[10]!.id } }),
      "a call and its results stay together",
    ],
    [
      "does not make the context smaller",
      ({ branchEntries }) => ({
        compaction: { summary: words(600), firstKeptEntryId: branchEntries[4]!.id },
      }),
      "does not make the context smaller",
    ],
    [
      "counts tokens that are no number",
      () => ({ compaction: { summary: "x", tokensBefore: "many" } }),
      "`compaction.tokensBefore` is not a number",
    ],
    [
      "has a bill that is none",
      () => ({ compaction: { summary: "x", usage: 7 } }),
      "`compaction.usage` is not an object",
    ],
    ["has instructions that are not text", () => ({ instructions: 7 }), "instructions"],
    ["cannot be copied", () => ({ compaction: { summary: "x", details: () => 1 } }), ""],
  ];
  for (const [what, answer, why] of illegal)
    test(`if it ${what}`, async () => {
      const { result, reports, heard, summarizer } = await compactWith(answering("wrong", answer));
      expect(result).toMatchObject({ eligible: true, source: "scripted" });
      expect(summarizer.requests).toHaveLength(1);
      expect(reports).toMatchObject([{ kind: "invalid-answer", owners: ["wrong"] }]);
      expect(reports[0]!.message).toContain(why);
      expect(heard).toMatchObject({ before: 1, failed: [] });
    });

  test("if it names an entry of another branch", async () => {
    const off = { id: "" };
    const { session, reports } = await plant({
      turns: 4,
      summarizer: scriptedSummarizer(soundAnswer),
      extensions: [answering("wrong", () => ({ compaction: { summary: "x", firstKeptEntryId: off.id } }))],
    });
    const path = session.getBranch();
    await session.navigate(path[3]!.id);
    off.id = (await session.appendMessages(turn("elsewhere")))[0]!.id;
    await session.navigate(path.at(-1)!.id);
    expect(await session.compact()).toMatchObject({ source: "scripted" });
    expect(reports).toMatchObject([
      { owners: ["wrong"], message: expect.stringContaining("not on the path") },
    ]);
  });

  test("if it keeps entries from before the last kept one, even when it can read the whole branch", async () => {
    let first: string | undefined;
    const { session, reports } = await plant({
      turns: 4,
      summarizer: scriptedSummarizer(soundAnswer),
      extensions: [
        answering("wrong", ({ branchEntries }) => {
          const answer =
            first === undefined ? undefined : { compaction: { summary: "x", firstKeptEntryId: first } };
          first = branchEntries[0]!.id;
          return answer;
        }),
      ],
    });
    await session.compact();
    await session.appendMessages(turn("5"));
    expect(await session.compact()).toMatchObject({ source: "scripted" });
    expect(reports).toMatchObject([
      { message: expect.stringContaining("before the entries that the last compaction kept") },
    ]);
  });
});

describe("several handlers", () => {
  test("the first answer is used: a second compaction is reported with both owners, instructions are joined", async () => {
    const { result, reports, session } = await compactWith(
      answering("later", () => ({ compaction: { summary: "Later." } })),
      answering("first", () => ({ compaction: { summary: "First." } }), { priority: 10 }),
      answering("empty", () => ({})),
    );
    expect(result).toMatchObject({ summary: "First." });
    expect(reports).toMatchObject([{ kind: "conflict", owners: ["first", "later"] }]);
    expect(session.getBranch().at(-1)).toMatchObject({ fromHook: true });
    const { summarizer } = await compactWith(
      answering("a", () => ({ instructions: "Keep the ids." })),
      answering("b", () => ({ instructions: "Be brief." })),
    );
    expect(summarizer.requests[0]!.customInstructions).toBe("Keep the ids.\n\nBe brief.");
  });

  test("the user's instructions come before those of extensions", async () => {
    const summarizer = scriptedSummarizer(soundAnswer);
    const extensions = [answering("a", () => ({ instructions: "Keep the ids." }))];
    const { session } = await plant({ turns: 4, summarizer, extensions });
    await session.compact({ instructions: "Mind the tests." });
    expect(summarizer.requests[0]!.customInstructions).toBe("Mind the tests.\n\nKeep the ids.");
  });
});

describe("a handler that never returns", () => {
  const never = () => new Promise<undefined>(() => {});

  test("is abandoned after its time limit", async () => {
    const { result, reports } = await compactWith(answering("slow", never, { timeoutMs: 20 }));
    expect(result).toMatchObject({ eligible: true });
    expect(reports).toMatchObject([{ kind: "timed-out", owners: ["slow"] }]);
  });

  test("does not delay an abort", async () => {
    const { heard, extension } = listen();
    const { session } = await plant({ turns: 4, extensions: [extension, answering("slow", never)] });
    const before = bytesOf(session);
    await expect(session.compact({ signal: AbortSignal.timeout(20) })).rejects.toMatchObject({
      code: "aborted",
    });
    expect(bytesOf(session).equals(before)).toBe(true);
    expect(heard.failed).toMatchObject([{ outcome: "aborted", aborted: true }]);
    expect(session.isCompacting).toBe(false);
  });

  test("does not block the session once the compaction is in the log", async () => {
    const slow: Extension = (api) => {
      api.on("session_compact", never, { timeoutMs: 20 });
    };
    const { result, session } = await compactWith(slow);
    expect(result).toMatchObject({ eligible: true });
    await session.close();
  });
});

describe("a handler that is notified of the end", () => {
  test("is told of a beginning before, whenever the compaction is aborted", async () => {
    for (let ticks = 0; ticks < 60; ticks++) {
      const told: string[] = [];
      const own: Extension = (api) => {
        for (const name of ["session_before_compact", "session_compact", "session_compact_failed"] as const)
          api.on(name, () => void told.push(name));
      };
      const { session } = await plant({ turns: 4, extensions: [own] });
      const abort = new AbortController();
      const ended = session.compact({ signal: abort.signal }).catch(() => undefined);
      for (let tick = 0; tick < ticks; tick++) await undefined;
      abort.abort();
      await ended;
      expect(told[0] ?? "session_before_compact").toBe("session_before_compact");
      expect(told).toHaveLength(told.length === 0 ? 0 : 2);
    }
  });

  test("can use the session again, with a signal that is not aborted", async () => {
    const seen: unknown[] = [];
    const abort = new AbortController();
    const own: Extension = (api) => {
      const notes = api.state("notes", { initial: 0 });
      api.on("session_before_compact", () => new Promise<undefined>(() => {}));
      api.on("session_compact_failed", async (_event, ctx) => {
        seen.push(ctx.signal.aborted);
        await notes.append("it was aborted");
        seen.push(session.isCompacting, notes.get());
      });
    };
    const { session } = await plant({ turns: 4, extensions: [own] });
    setTimeout(() => abort.abort(), 10);
    await expect(session.compact({ signal: abort.signal })).rejects.toMatchObject({ code: "aborted" });
    expect(seen).toEqual([false, false, "it was aborted"]);
  });

  test("cannot undo the compaction by failing, even if it is critical", async () => {
    const broken: Extension = (api) => {
      api.on("session_compact", () => Promise.reject(new Error("no mirror")), { critical: true });
    };
    const { result, heard, reports, session } = await compactWith(broken);
    expect(result).toMatchObject({ eligible: true });
    expect(heard.failed).toEqual([]);
    expect(reports).toMatchObject([{ kind: "threw" }]);
    expect(session.getBranch().at(-1)).toMatchObject({ type: "compaction" });
  });
});

describe("the event of a handler", () => {
  test("has the whole branch, the plan with its files as sets, and the reason", async () => {
    let shown: BeforeCompactEvent | undefined;
    const { session } = await plant({
      turns: 4,
      extensions: [
        answering("curious", (event) => {
          shown = event;
          return undefined;
        }),
      ],
    });
    await session.compact();
    await session.appendMessages(turn("5"));
    const path = session.getBranch();
    await session.compact({ instructions: "Mind the tests." });
    expect(shown).toMatchObject({
      reason: "manual",
      willRetry: false,
      customInstructions: "Mind the tests.",
      branchEntries: path,
      preparation: {
        isSplitTurn: false,
        turnPrefixMessages: [],
        tokensBefore: expect.any(Number),
        firstKeptEntryId: path[17]!.id,
        settings: { keepRecentTokens: 160 },
      },
    });
    const { preparation } = shown!;
    expect(preparation.previousSummary).toContain("## Goal");
    expect(preparation.messagesToSummarize).toHaveLength(4);
    expect([...preparation.fileOps.read].sort()).toEqual(["1-1.ts", "2-1.ts", "3-1.ts", "4-1.ts"]);
    expect(Object.isFrozen(preparation.messagesToSummarize)).toBe(true);
    expect(shown!.signal).toBeInstanceOf(AbortSignal);
  });

  test("cannot be changed, and changes of its file sets have no effect", async () => {
    const { result } = await compactWith(
      answering("meddling", ({ preparation }) => {
        preparation.fileOps.read.clear();
        preparation.fileOps.edited.add("forged.ts");
        return undefined;
      }),
      answering("rude", ({ preparation }) => {
        (preparation.messagesToSummarize as unknown[]).length = 0;
        return undefined;
      }),
    );
    expect(result).toMatchObject({ summary: expect.stringContaining("1-1.ts") });
    expect(result).toMatchObject({ summary: expect.not.stringContaining("forged.ts") });
  });

  test("does not freeze objects that the session still changes", async () => {
    const { session, store } = await compactWith(answering("curious", () => undefined));
    await session.appendMessages(turn("5"));
    await session.pin(session.leafId!);
    expect(await session.compact()).toMatchObject({ eligible: true });
    await contextOf(session, store);
  });
});
