import type { SessionOptions } from "@espalier/engine";
import { anthropicSummarizer, DEFAULT_ANTHROPIC_MODEL } from "@espalier/summarizer";
import {
  brokenReply,
  errorReply,
  hangingReply,
  type MessagesServerOptions,
  overloadedReply,
  type ReceivedRequest,
  rateLimitedReply,
  startMessagesServer,
  textReply,
  tooLongReply,
  toolReply,
} from "@espalier/summarizer/testing";
import { afterEach, describe, expect, test } from "vitest";
import {
  addedSince,
  bytesOf,
  contextOf,
  HISTORY_ANSWER,
  listen,
  plant,
  TURN_ANSWER,
  turn,
} from "./build-session.ts";

let stop = async () => {};
afterEach(() => stop());

/** A session whose summaries Claude writes: the real SDK, against a server on loopback. */
async function withClaude(server: MessagesServerOptions, options: SessionOptions & { turns?: number } = {}) {
  const running = await startMessagesServer(server);
  stop = running.close;
  const { heard, extension } = listen();
  const summarizer = anthropicSummarizer({
    apiKey: "key",
    baseURL: running.url,
    contextWindow: server.contextWindow ?? 200_000,
  });
  const planted = await plant({
    turns: 20,
    fallback: false,
    ...options,
    summarizer,
    extensions: [extension],
  });
  return { ...planted, server: running, heard };
}

const isTurn = ({ raw }: ReceivedRequest) => raw.toString().includes("Context for Suffix");
const answer = (request: ReceivedRequest) => textReply(isTurn(request) ? TURN_ANSWER : HISTORY_ANSWER);

describe("a compaction by Claude", () => {
  test("is written by the model, billed in the entry, and every request is valid", async () => {
    const { session, store, server } = await withClaude({ reply: answer });
    const result = await session.compact();
    if (!result.eligible) throw new Error(result.reason);
    expect(result).toMatchObject({ source: "anthropic", usage: { input: expect.any(Number) } });
    expect(session.getEntry(result.entryId)).toMatchObject({
      details: { model: { provider: "anthropic", modelId: expect.stringContaining("claude") } },
      usage: { cost: { total: expect.any(Number) } },
    });
    expect(server.requests.map(({ problems }) => problems)).toEqual([[]]);
    expect((await contextOf(session, store)).messages[0]).toMatchObject({ role: "compactionSummary" });
  });

  test("requests both parts of a split turn before either is answered, or one by one", async () => {
    const slow = (request: ReceivedRequest) => ({ ...answer(request), delayMs: 30 });
    for (const [concurrency, inFlight] of [
      [2, [1, 2]],
      [1, [1, 1]],
    ] as const) {
      const { session, server } = await withClaude(
        { reply: slow },
        { concurrency, compaction: { keepRecentTokens: 60 } },
      );
      expect(session.planCompaction()).toMatchObject({ isSplitTurn: true });
      await session.compact();
      expect(server.requests.map((request) => request.inFlight)).toEqual(inFlight);
      await server.close();
    }
  });

  test("retries temporary failures: 429, 529, overloaded during a stream, a broken connection", async () => {
    for (const trouble of [
      rateLimitedReply(1),
      overloadedReply(),
      brokenReply(HISTORY_ANSWER, "overloaded"),
      brokenReply(HISTORY_ANSWER, "cut"),
    ]) {
      const { session, server, heard } = await withClaude({
        reply: (request, n) => (n === 1 ? trouble : answer(request)),
      });
      const before = bytesOf(session);
      expect(await session.compact()).toMatchObject({ source: "anthropic" });
      expect(server.requests).toHaveLength(2);
      expect(addedSince(session, before).map(({ type }) => type)).toEqual(["compaction"]);
      expect(heard).toMatchObject({ before: 1, failed: [] });
      await server.close();
    }
  });

  test("that fails permanently leaves the context unchanged, and bills the received part", async () => {
    for (const [reply, code, bills] of [
      [errorReply(401, "invalid x-api-key"), "unauthorized", 0],
      [textReply(""), "empty", 1],
      [textReply(HISTORY_ANSWER, { stopReason: "max_tokens" }), "cut-off", 1],
      [textReply(HISTORY_ANSWER, { stopReason: "refusal" }), "refused", 1],
      [toolReply([{ name: "read", input: { path: "a" } }]), "tool-call", 1],
    ] as const) {
      const { session, store, server, heard } = await withClaude({ reply });
      const before = { bytes: bytesOf(session), context: await contextOf(session, store) };
      await expect(session.compact()).rejects.toMatchObject({ code });
      // The bill is the model's, not that of whoever asked it.
      expect(addedSince(session, before.bytes)).toMatchObject(
        bills
          ? [{ type: "usage", kind: "compaction", provider: "anthropic", model: DEFAULT_ANTHROPIC_MODEL }]
          : [],
      );
      expect(await contextOf(session, store)).toEqual(before.context);
      expect(heard.failed).toMatchObject([{ outcome: "failed", error: { code } }]);
      await server.close();
    }
  });

  test("that is aborted during the answer ends at once, and bills the streamed tokens", async () => {
    const { session, server } = await withClaude({
      reply: textReply(HISTORY_ANSWER, { deltaDelayMs: 30 }),
    });
    const before = bytesOf(session);
    const abort = new AbortController();
    const onProgress = () => abort.abort();
    await expect(session.compact({ signal: abort.signal, onProgress })).rejects.toMatchObject({
      code: "aborted",
    });
    expect(addedSince(session, before)).toMatchObject([
      { type: "usage", usage: { input: expect.any(Number) } },
    ]);
    expect(server.requests).toHaveLength(1);
    await server.close();
    const silent = await withClaude({ reply: hangingReply() });
    const untouched = bytesOf(silent.session);
    const signal = AbortSignal.timeout(30);
    await expect(silent.session.compact({ signal })).rejects.toMatchObject({ code: "aborted" });
    expect(bytesOf(silent.session).equals(untouched)).toBe(true);
  });

  test("of a history larger than the model's window is sent in parts that fit", async () => {
    const { session, server } = await withClaude(
      { reply: answer, contextWindow: 12_000 },
      { turns: 0, compaction: { keepRecentTokens: 100 } },
    );
    for (let at = 0; at < 60; at++) await session.appendMessages(turn(`${at}`, { size: 250 }));
    expect(await session.compact()).toMatchObject({ source: "anthropic" });
    expect(server.requests.length).toBeGreaterThan(2);
    expect(server.requests.flatMap(({ problems }) => problems)).toEqual([]);
  });

  test("falls back, and reports it, if the model refuses every size as too long", async () => {
    const { session, store } = await withClaude({ reply: tooLongReply() });
    expect(await session.compact()).toMatchObject({ source: "extractive" });
    expect((await contextOf(session, store)).messages[0]).toMatchObject({ role: "compactionSummary" });
  });

  test("falls back if that is requested", async () => {
    const { session } = await withClaude({ reply: errorReply(403, "not allowed") }, { fallback: true });
    expect(await session.compact()).toMatchObject({ source: "extractive" });
  });
});

test("an abandoned branch is summarized by Claude too", async () => {
  const { session, server } = await withClaude({ reply: answer });
  const { summaryEntryId } = await session.navigate(session.getBranch()[3]!.id, { summarize: true });
  expect(session.getEntry(summaryEntryId!)).toMatchObject({ details: { source: "anthropic" }, usage: {} });
  expect(server.requests[0]!.raw.toString()).toContain("The user returns to an earlier point");
});
