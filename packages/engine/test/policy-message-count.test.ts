import {
  getHistoryContext,
  isArchived,
  queryHistory,
  SUMMARIES_ARE_FOR_REFERENCE,
  sessionSummaries,
} from "@espalier/compaction/policies";
import { compactSession, openSession, type Session } from "@espalier/engine";
import { anthropicFormat, buildRequest, compaction, type Entry } from "@espalier/session-tree";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { heldSummarizer, say, settled, stage, until } from "./policy-stage.ts";

const compactionsOf = (session: Session) => session.getBranch().filter((entry) => compaction.is(entry));
const idsOf = (entries: readonly Entry[]) =>
  entries.filter(({ type }) => type === "message").map(({ id }) => id);

test("above 50 active messages the oldest are summarized in the background, and 10 stay", async () => {
  const summarizer = heldSummarizer();
  const session = await stage({ policy: "message-count", summarizer });
  await say(session, 51);
  // Nobody waits: the summary is not written yet, and the conversation has gone on.
  await until(() => summarizer.waiting === 1);
  expect(session.context.messages).toHaveLength(51);
  await say(session, 1, 51);
  summarizer.answer();
  await settled(session, summarizer);
  const [summary, ...active] = session.context.messages;
  expect(summary).toMatchObject({ role: "compactionSummary" });
  expect(active).toHaveLength(11);
  expect(summarizer.requests[0]!.messages).toHaveLength(41);
  expect(summarizer.requests[0]!.transcript).toMatch(/^<transcript>\nuser: hi\nassistant: message 1: lorem/);
  await session.close();
});

test("each summary has its own range, and all of them are before the recent messages", async () => {
  const summarizer = scriptedSummarizer((_, n) => `Stretch ${n}.`);
  const session = await stage({
    policy: "message-count",
    policySettings: { maxMessages: 8, keepLast: 3 },
    summarizer,
  });
  for (let at = 0; at < 20; at++) {
    await say(session, 1, at);
    await settled(session);
  }
  const summaries = sessionSummaries(session);
  const ids = idsOf(session.getBranch());
  expect(summaries.map(({ msgCount }) => msgCount)).toEqual([6, 6]);
  expect(summaries.map(({ startMsgId, endMsgId }) => [startMsgId, endMsgId])).toEqual([
    [ids[0], ids[5]],
    [ids[6], ids[11]],
  ]);
  expect(summaries.map(({ sessionId, id }) => [sessionId, id])).toEqual(
    compactionsOf(session).map(({ id }) => [session.id, id]),
  );
  const { summary } = session.context.messages[0] as { summary: string };
  expect(summary).toMatch(
    /^## PREVIOUS CONTEXT SUMMARY\nStretch 1\.\nStretch 2\.\n\n\(This summary is a record/,
  );
  expect(summary).toContain("\n\n<goal>\nhi\n</goal>");
  expect(getHistoryContext(session, { limit: 1 })).toMatch(
    /^## PREVIOUS CONTEXT SUMMARY\nStretch 1\.\nStretch 2\.\n\n## RECENT MESSAGES\nassistant: message 19/,
  );
  // A stretch is summarized once; nobody is shown an earlier summary to rewrite.
  expect(summarizer.requests.every(({ previousSummary }) => previousSummary === undefined)).toBe(true);
  expect(ids.map((id) => isArchived(session, id))).toEqual(ids.map((_, at) => at < 12));
  await session.close();
});

test("archived messages stay in the file, and are found by their words", async () => {
  const session = await stage({ summarizer: scriptedSummarizer("Much was said."), fallback: false });
  await say(session, 30);
  await compactSession(session);
  const [hit] = queryHistory(session, { query: "message 7:" });
  expect(hit).toMatchObject({ role: "assistant", covered: true, onPath: true });
  expect(session.getEntry(hit!.entryId)).toMatchObject({ type: "message" });
  await session.close();
});

test("the request has every active message, and the system prompt describes the limits of summaries", async () => {
  const session = await stage({ policy: "message-count", summarizer: scriptedSummarizer("Much was said.") });
  await say(session, 30);
  expect((await session.prepareRequest({ system: "Be brief." })).system).toBe("Be brief.");
  await compactSession(session, { keepLast: 25 });
  const { context, system } = await session.prepareRequest({ system: "Be brief." });
  expect(context.messages).toHaveLength(26);
  expect(system).toBe(`Be brief.\n\n${SUMMARIES_ARE_FOR_REFERENCE}`);
  const request = buildRequest(context, { format: anthropicFormat, system });
  expect(request.system).toContain("query_history");
  expect(JSON.stringify(request.messages[0])).toContain("PREVIOUS CONTEXT SUMMARY");
  await session.close();
});

test("compactSession does nothing at or below keepLast, and returns the summary above it", async () => {
  const summarizer = scriptedSummarizer("What was said.");
  const session = await stage({ summarizer });
  await say(session, 10);
  expect(await compactSession(session)).toBeNull();
  expect(summarizer.requests).toEqual([]);
  await say(session, 4, 10);
  const summary = await compactSession(session, { keepLast: 10 });
  expect(summary).toMatchObject({ summary: "What was said.", msgCount: 4, sessionId: session.id });
  expect(await compactSession(session, { keepLast: 60 })).toBeNull();
  await session.close();
});

test("an extension's summary covers everything before it", async () => {
  const session = await stage({
    policy: "message-count",
    policySettings: { maxMessages: 8, keepLast: 3 },
    extensions: [
      (api) => void api.on("session_before_compact", () => ({ compaction: { summary: "Mine." } })),
    ],
  });
  await say(session, 9);
  await settled(session);
  expect(sessionSummaries(session)).toEqual([expect.objectContaining({ summary: "Mine.", msgCount: 6 })]);
  expect((await session.prepareRequest()).system).toBeUndefined();
  await session.close();
});

test("an extension that makes the compaction gets the stacked summaries, and its result replaces them too", async () => {
  let isOwn = false;
  const shown: { previousSummary?: string; stackedOn?: string }[] = [];
  const session = await stage({
    policy: "message-count",
    policySettings: { maxMessages: 8, keepLast: 3 },
    summarizer: scriptedSummarizer((_, n) => `Stretch ${n}.`),
    extensions: [
      (api) =>
        void api.on("session_before_compact", ({ preparation }) => {
          const { previousSummary, stackedOn } = preparation;
          shown.push({ ...(previousSummary && { previousSummary }), ...(stackedOn && { stackedOn }) });
          return isOwn ? { compaction: { summary: `Mine: ${previousSummary}` } } : {};
        }),
    ],
  });
  for (let at = 0; at < 20; at++) {
    isOwn = at >= 9;
    await say(session, 1, at);
    await settled(session);
  }
  const earlier = "Stretch 1.";
  expect(shown).toEqual([{}, { previousSummary: earlier, stackedOn: earlier }]);
  expect(session.context.messages[0]).toMatchObject({ summary: `Mine: ${earlier}` });
  expect(sessionSummaries(session)).toEqual([
    expect.objectContaining({ summary: `Mine: ${earlier}`, startMsgId: session.getBranch()[0]!.id }),
  ]);
  await session.close();
});

test("navigating back before a summary restores the archived messages", async () => {
  const session = await stage({ summarizer: scriptedSummarizer("Much.") });
  await say(session, 20);
  const before = structuredClone(session.context);
  const leafId = session.leafId;
  await compactSession(session);
  expect(session.context.messages).toHaveLength(11);
  await session.navigate(leafId);
  expect(session.context).toEqual(before);
  expect(sessionSummaries(session)).toEqual([]);
  await session.close();
});

test("the reopened session gives the same result", async () => {
  const session = await stage({ summarizer: scriptedSummarizer("Much.") });
  await say(session, 20);
  await compactSession(session);
  const text = getHistoryContext(session);
  await session.close();
  const reopened = await openSession({ file: session.file }, { mode: "read" });
  expect(getHistoryContext(reopened)).toBe(text);
  await reopened.close();
});
