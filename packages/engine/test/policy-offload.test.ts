import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "@espalier/compaction";
import { deleteSession, openSession, type Session, type SessionOptions } from "@espalier/engine";
import {
  type ContextMessage,
  contextEdit,
  estimateTotal,
  memoryStore,
  messageText,
} from "@espalier/session-tree";
import { offloadFolder } from "@espalier/session-tree/node";
import { anthropicSummarizer } from "@espalier/summarizer";
import {
  cutOffAnswer,
  failingAnswer,
  hangingAnswer,
  scriptedSummarizer,
  startMessagesServer,
  textReply,
} from "@espalier/summarizer/testing";
import { describe, expect, test, vi } from "vitest";
import { COMPACT_SUMMARY, say, stage, until } from "./policy-stage.ts";

/** A window of 20,000 tokens of which 4,000 are kept for the answer. */
const compaction = { contextWindow: 20_000, reserveTokens: 4_000 };
const settings = { ...DEFAULT_COMPACTION_SETTINGS, ...compaction };
const OFFLOAD = { policy: "offload", compaction } as const satisfies SessionOptions;

/** A call and its result of so many tokens, and what the model says to it. */
async function useTool(session: Session, id: string, tokens: number): Promise<void> {
  const toolCall = { type: "toolCall", id, name: "read", arguments: { path: id } };
  await session.appendMessages([
    { role: "assistant", content: [toolCall] },
    { role: "toolResult", toolCallId: id, content: `${id} `.repeat((tokens * 4) / (id.length + 1)) },
    { role: "assistant", content: `I have read ${id}.` },
  ]);
}

/** An image of one pixel, in base64. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

const folderOf = (session: Session) => offloadFolder(session.file);
const filesOf = (session: Session) =>
  existsSync(folderOf(session)) ? readdirSync(folderOf(session)).sort() : [];
const referencesIn = (messages: readonly ContextMessage[]) =>
  messages.map(messageText).flatMap((text) => /^Tool result is at: (.*)$/.exec(text)?.[1] ?? []);
const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

describe("before a request", () => {
  test("nothing is moved at or below the threshold", async () => {
    const session = await stage(OFFLOAD);
    await useTool(session, "a", 15_000);
    expect(await session.prepareRequest()).toMatchObject({
      offloaded: null,
      compaction: null,
      failure: null,
    });
    expect(filesOf(session)).toEqual([]);
    await session.close();
  });

  test("large results are moved to files, oldest first; the log keeps the originals", async () => {
    const told: unknown[] = [];
    const session = await stage(OFFLOAD);
    session.events.subscribe("STATE_CHANGED", (payload) => void told.push(payload));
    for (const id of ["a", "b", "c"]) await useTool(session, id, 7_000);
    const before = session.getBranch();
    const { offloaded, compaction, context } = await session.prepareRequest();
    expect(offloaded).toMatchObject({ offloadedCount: 1, stillExceedsThreshold: false });
    expect(compaction).toBeNull();
    const [path] = referencesIn(context.messages);
    expect(readFileSync(path!, "utf8")).toBe("a ".repeat(14_000));
    expect(path).toBe(`${folderOf(session)}/${basename(path!)}`);
    expect(basename(path!)).toMatch(/^[0-9a-f]{64}\.txt$/);
    expect([mode(folderOf(session)), mode(path!)]).toEqual(["700", "600"]);
    expect(session.getBranch().slice(0, before.length)).toEqual(before);
    expect(
      session
        .getBranch()
        .slice(before.length)
        .every((entry) => contextEdit.is(entry)),
    ).toBe(true);
    expect(estimateTotal(context.messages)).toBeLessThanOrEqual(thresholdOf(settings));
    expect(told).toEqual([
      { name: "session.offload", data: { offloadedCount: 1, freedTokens: offloaded!.freedTokens } },
    ]);
    // A second request finds nothing to do.
    expect(await session.prepareRequest()).toMatchObject({ offloaded: null, compaction: null });
    await session.close();
  });

  test("the newest results stay: the model has not read them", async () => {
    const session = await stage({ ...OFFLOAD, policySettings: { triggerTokens: 0 } });
    await useTool(session, "old", 4_000);
    const calls = ["x", "y"].map((id) => ({ type: "toolCall", id, name: "read", arguments: {} }));
    await session.appendMessages([
      { role: "assistant", content: calls },
      ...["x", "y"].map((toolCallId) => ({
        role: "toolResult" as const,
        toolCallId,
        content: "z".repeat(26_000),
      })),
    ]);
    const { context, offloaded } = await session.prepareRequest();
    expect(offloaded).toMatchObject({ offloadedCount: 1 });
    expect(referencesIn(context.messages)).toHaveLength(1);
    expect(context.messages.slice(-2).map(messageText)).toEqual(["z".repeat(26_000), "z".repeat(26_000)]);
    await session.close();
  });

  test("enough freed, but still too large: no compaction yet; the next request starts one", async () => {
    const session = await stage({
      ...OFFLOAD,
      policySettings: { triggerTokens: 3_000, offloadThreshold: 5_000 },
      summarizer: scriptedSummarizer(COMPACT_SUMMARY),
    });
    await useTool(session, "a", 4_000);
    await say(session, 16);
    expect(await session.prepareRequest()).toMatchObject({
      offloaded: { offloadedCount: 1, stillExceedsThreshold: true },
      compaction: null,
    });
    const { offloaded, compaction } = await session.prepareRequest();
    expect(offloaded).toBeNull();
    expect(compaction).toMatchObject({ preservedCount: 5 });
    await session.close();
  });

  test("a session without a file keeps its results, is compacted without offloading, and reports this once", async () => {
    const warnings: string[] = [];
    const errors: string[] = [];
    const log = {
      warn: (message: string) => void warnings.push(message),
      error: (message: string) => void errors.push(message),
    };
    const summarizer = scriptedSummarizer(COMPACT_SUMMARY);
    const session = await stage({ ...OFFLOAD, store: memoryStore(), file: "m", log, summarizer });
    await useTool(session, "a", 6_000);
    expect(await session.prepareRequest()).toMatchObject({ compaction: null, failure: null });
    expect(warnings).toEqual([]);
    // What would be freed by files is more than enough: it must not count.
    for (const id of ["b", "c"]) await useTool(session, id, 16_000);
    const { failure, offloaded, compaction, context } = await session.prepareRequest();
    expect({ failure, offloaded }).toEqual({ failure: null, offloaded: null });
    expect(compaction).toMatchObject({ eligible: true });
    expect(referencesIn(context.messages)).toEqual([]);
    for (const id of ["d", "e"]) await useTool(session, id, 16_000);
    expect(await session.prepareRequest()).toMatchObject({ compaction: { eligible: true }, failure: null });
    expect(warnings).toEqual([
      expect.stringMatching(/offload moves results .* m is not in a file: .*`offloadStorage`/),
    ]);
    expect(errors).toEqual([]);
    await session.close();
  });
});

describe("a compaction", () => {
  /** Ten messages in front of eight, the oldest two results in files. */
  async function moved(options: SessionOptions): Promise<Session> {
    const session = await stage({ ...OFFLOAD, ...options, policySettings: { offloadThreshold: 6_000 } });
    await useTool(session, "one", 6_000);
    await useTool(session, "two", 6_000);
    await session.prepareRequest();
    expect(filesOf(session)).toHaveLength(2);
    await say(session, 8);
    return session;
  }

  test("keeps five messages, reads the files back for the summarizer, adds a heading, and removes the files", async () => {
    const summarizer = scriptedSummarizer(COMPACT_SUMMARY, { maxOutputTokens: 64_000 });
    const session = await moved({ summarizer });
    const files = filesOf(session).map((name) => `${folderOf(session)}/${name}`);
    const result = await session.forceCompact();
    expect(result).toMatchObject({ success: true, preservedCount: 5 });
    expect(result.deletedFiles).toEqual(files);
    expect(filesOf(session)).toEqual([]);
    expect(result.freedTokens).toBe(result.previousTokens - result.currentTokens);
    expect(result.messages).toEqual(session.context.messages);
    expect(result.messages).toHaveLength(6);
    const { summary } = result.messages[0] as { summary: string };
    expect(
      summary.startsWith("[Compressed History]\n\n## Technical Context\nnothing\n\n## Project Overview"),
    ).toBe(true);
    const [request] = summarizer.requests;
    expect(request!.messages.map(messageText)).toContain("one ".repeat(6_000));
    expect(request!.transcript).toContain("two ".repeat(6_000).trim());
    expect(request).toMatchObject({ maxOutputTokens: 9_600 });
    expect(request!.systemPrompt).toMatch(/^Please provide a comprehensive summary.*8000 tokens\.$/s);
    await session.close();
  });

  test("records an image that a model summarizes, and every later request is sent", async () => {
    const session = await stage({ ...OFFLOAD, summarizer: scriptedSummarizer(COMPACT_SUMMARY) });
    await session.appendMessages([
      {
        role: "user",
        content: [
          { type: "text", text: "Look at this." },
          { type: "image", data: PNG, mimeType: "image/png" },
        ],
      },
    ]);
    await say(session, 40, 1);
    const { compaction, failure } = await session.prepareRequest();
    expect({ failure, eligible: compaction?.eligible }).toEqual({ failure: null, eligible: true });
    const { details } = session.getBranch().find((entry) => entry.type === "compaction") as {
      details?: { omitted?: { history?: unknown } };
    };
    // Results were shown whole: no limit.
    expect(details?.omitted?.history).toMatchObject({ toolResultLimit: null, media: [{ count: 1 }] });
    expect(await session.prepareRequest()).toMatchObject({ failure: null, compaction: null });
    await session.close();
  });

  test("gives the summarizer a placeholder for a missing file", async () => {
    const summarizer = scriptedSummarizer(COMPACT_SUMMARY);
    const session = await moved({ summarizer });
    const [gone] = referencesIn(session.context.messages);
    rmSync(gone!);
    await session.compact();
    expect(summarizer.requests[0]!.messages.map(messageText)).toContain(`[Content unavailable: ${gone}]`);
    await session.close();
  });

  test("keeps the reference and the file of an offloaded result among the newest", async () => {
    const session = await moved({ summarizer: scriptedSummarizer(COMPACT_SUMMARY) });
    await useTool(session, "three", 6_000);
    await session.prepareRequest();
    expect(referencesIn(session.context.messages.slice(-3))).toHaveLength(1);
    const result = await session.forceCompact();
    expect(result).toMatchObject({ success: true, preservedCount: 5 });
    expect(result.deletedFiles).toHaveLength(2);
    const kept = referencesIn(result.messages);
    expect(filesOf(session)).toEqual(kept.map((path) => basename(path)));
    await session.close();
  });

  test("keeps a file that another leaf refers to", async () => {
    const session = await moved({ summarizer: scriptedSummarizer(COMPACT_SUMMARY) });
    const fork = session.leafId;
    await say(session, 2, 9);
    await session.navigate(fork);
    await say(session, 3, 20);
    const result = await session.forceCompact();
    expect(result).toMatchObject({ success: true, deletedFiles: [] });
    expect(filesOf(session)).toHaveLength(2);
    await session.close();
  });

  test("navigating to an entry with a missing file writes the file again from the log", async () => {
    const session = await moved({ summarizer: scriptedSummarizer(COMPACT_SUMMARY) });
    const before = session.leafId;
    const context = structuredClone(session.context);
    await session.forceCompact();
    expect(filesOf(session)).toEqual([]);
    await session.navigate(before);
    expect(session.context).toEqual(context);
    for (const path of referencesIn(session.context.messages))
      expect(readFileSync(path, "utf8")).toMatch(/^(one|two) /);
    await session.undo();
    expect(session.context.messages).toHaveLength(6);
    await session.close();
  });

  test("opening a session with a missing file writes the file again", async () => {
    const session = await moved({});
    await session.close();
    rmSync(folderOf(session), { recursive: true });
    const reopened = await openSession({ file: session.file }, OFFLOAD);
    for (const path of referencesIn(reopened.context.messages)) expect(existsSync(path)).toBe(true);
    await reopened.close();
    rmSync(folderOf(session), { recursive: true });
    const reading = await openSession({ file: session.file }, { mode: "read" });
    await reading.navigate(reading.leafId);
    expect(await reading.prepareRequest()).toMatchObject({ failure: null });
    await reading.close();
    expect(existsSync(folderOf(session))).toBe(false);
  });

  test("a reader moves nothing to files", async () => {
    const session = await stage();
    await useTool(session, "one", 6_000);
    await session.close();
    const policySettings = { offloadThreshold: 100 };
    const reading = await openSession({ file: session.file }, { ...OFFLOAD, policySettings, mode: "read" });
    await expect(reading.prepareRequest()).rejects.toMatchObject({ code: "read-only" });
    await reading.close();
    expect(existsSync(folderOf(session))).toBe(false);
  });

  test("with at most five messages succeeds without freeing or writing anything", async () => {
    const session = await stage(OFFLOAD);
    expect(await session.forceCompact()).toMatchObject({ success: true, freedTokens: 0, messages: [] });
    expect(await session.compact()).toMatchObject({ eligible: false, reason: /^Nothing to compact/ });
    await say(session, 5);
    const lines = readFileSync(session.file, "utf8");
    expect(await session.forceCompact()).toMatchObject({ success: true, freedTokens: 0, preservedCount: 5 });
    expect(readFileSync(session.file, "utf8")).toBe(lines);
    await session.close();
  });

  test("after three failed attempts: warnings, an error, success false, and nothing changed", async () => {
    const said: string[] = [];
    const waits: number[] = [];
    const summarizer = scriptedSummarizer((_, n) => (n === 2 ? cutOffAnswer() : failingAnswer("failed")));
    const session = await moved({
      summarizer,
      log: { warn: (message) => void said.push(message), error: (message) => void said.push(message) },
      sleep: async (milliseconds) => void waits.push(milliseconds),
    });
    const context = structuredClone(session.context);
    expect(await session.forceCompact()).toMatchObject({
      success: false,
      freedTokens: 0,
      deletedFiles: [],
      messages: context.messages,
    });
    expect(said).toEqual([
      "Compact summary attempt 1 failed",
      "Compact summary attempt 2 failed",
      "Compact summary attempt 3 failed",
      "Compaction failed, history unchanged",
    ]);
    expect(waits).toEqual([1_000, 2_000]);
    expect(session.context).toEqual(context);
    expect(filesOf(session)).toHaveLength(2);
    await session.close();
  });

  test("abandons a summarizer that never answers after its time limit, in each attempt of the policy", async () => {
    const summarizer = scriptedSummarizer(hangingAnswer("for-ever"));
    const session = await moved({ summarizer, fallback: true, sleep: async () => {} });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const running = session.compact();
      for (let attempt = 1; attempt <= 3; attempt++) {
        await until(() => summarizer.requests.length === attempt);
        await vi.advanceTimersByTimeAsync(600_000 + 1_000);
      }
      expect(await running).toMatchObject({ source: "extractive" });
    } finally {
      vi.useRealTimers();
    }
    expect(summarizer.requests).toHaveLength(3);
    await session.close();
  });

  test("uses the policy's model if a client can provide it; otherwise the session's own, with a notice", async () => {
    const warnings: string[] = [];
    const [own, small] = [scriptedSummarizer(COMPACT_SUMMARY), scriptedSummarizer(COMPACT_SUMMARY)];
    const options: SessionOptions = {
      policy: "offload",
      policySettings: { model: "small" },
      summarizer: own,
      log: { warn: (message) => void warnings.push(message), error: () => {} },
    };
    const reachable = await stage({ ...options, summarizerForModel: () => small });
    await say(reachable, 9);
    await reachable.compact();
    const unreachable = await stage(options);
    await say(unreachable, 9);
    await unreachable.compact();
    expect([small.requests.length, own.requests.length]).toEqual([1, 1]);
    expect(warnings).toEqual([expect.stringContaining("small")]);
    await Promise.all([reachable.close(), unreachable.close()]);
  });

  test.each(["claude-haiku-4-5", "anthropic/claude-haiku-4-5"])(
    "asks Claude's model %s at the address of the session's own",
    async (model) => {
      const server = await startMessagesServer({ reply: textReply(COMPACT_SUMMARY), apiKey: "own-key" });
      const session = await stage({
        policy: "offload",
        policySettings: { model },
        summarizer: anthropicSummarizer({ apiKey: "own-key", baseURL: server.url, model: "claude-opus-4-8" }),
      });
      await say(session, 9);
      expect(await session.compact()).toMatchObject({ eligible: true, source: "anthropic" });
      expect(server.requests.map(({ body }) => body["model"])).toEqual(["claude-haiku-4-5"]);
      await session.close();
      await server.close();
    },
  );

  test("warns about a file that cannot be removed", async () => {
    const warnings: string[] = [];
    const session = await moved({
      summarizer: scriptedSummarizer(COMPACT_SUMMARY),
      log: { warn: (message) => void warnings.push(message), error: () => {} },
    });
    const storage = session.offloadStorage!;
    const remove = storage.remove;
    storage.remove = (path) => (path.endsWith("nothing") ? remove(path) : Promise.reject(new Error("held")));
    expect(await session.forceCompact()).toMatchObject({ success: true, deletedFiles: [] });
    expect(warnings).toHaveLength(2);
    await session.close();
  });
});

test("a fork gets its own files with its first request, and keeps them when the original is deleted", async () => {
  const session = await stage({ ...OFFLOAD, policySettings: { offloadThreshold: 6_000 } });
  await useTool(session, "one", 7_000);
  await session.prepareRequest();
  const { file } = await session.fork(session.leafId!, { out: `${session.file}.fork.jsonl` });
  await session.close();
  const fork = await openSession({ file }, OFFLOAD);
  const { context } = await fork.prepareRequest();
  await deleteSession({ file: session.file });
  expect(existsSync(folderOf(session))).toBe(false);
  const [path] = referencesIn(context.messages);
  expect(path!.startsWith(offloadFolder(file))).toBe(true);
  expect(readFileSync(path!, "utf8")).toBe("one ".repeat(7_000));
  await fork.close();
});

test("a tool's text that resembles a reference is not followed", async () => {
  const session = await stage(OFFLOAD);
  const secret = `${session.file}.secret`;
  writeFileSync(secret, "the secret");
  await useTool(session, "a", 100);
  await session.appendMessages([
    { role: "assistant", content: [{ type: "toolCall", id: "x", name: "read", arguments: {} }] },
    { role: "toolResult", toolCallId: "x", content: `Tool result is at: ${secret}` },
  ]);
  await say(session, 8);
  const summarizer = scriptedSummarizer(COMPACT_SUMMARY);
  await session.compact({ summarizer });
  expect(JSON.stringify(summarizer.requests[0]!.messages)).not.toContain("the secret");
  expect(existsSync(secret)).toBe(true);
  await session.close();
});

test("an extension that makes the compaction gets the offloaded content, not references to files", async () => {
  let shown = "";
  const session = await stage({
    ...OFFLOAD,
    extensions: [
      (api) =>
        void api.on("session_before_compact", ({ preparation }) => {
          shown = preparation.messagesToSummarize.map(messageText).join("\n");
          return { compaction: { summary: "Mine." } };
        }),
    ],
  });
  for (const id of ["a", "b", "c"]) await useTool(session, id, 7_000);
  const { context } = await session.prepareRequest();
  expect(referencesIn(context.messages)).toHaveLength(1);
  await say(session, 6);
  const result = await session.compact();
  expect(result).toMatchObject({ eligible: true, source: "extension", deletedFiles: [expect.any(String)] });
  expect(shown).toContain("a ".repeat(14_000));
  expect(shown).not.toContain("Tool result is at:");
  expect(filesOf(session)).toEqual([]);
  await session.close();
});
