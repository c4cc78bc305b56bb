import { type Extension, type MessageDraft, POLICY_NAMES, type Session } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { anthropicFormat, buildRequest, isMessage } from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addedSince, bytesOf, type PlantOptions, plant } from "./build-session.ts";

const MOST = 200_000;
const KEEP_MUCH = { requestBytes: MOST, keepRecentTokens: 20_000 };

/** An image whose base64 has about so many bytes. */
const picture = (bytes: number) => ({
  type: "image",
  data: `iVBORw0K${"AAAA".repeat(Math.floor(bytes / 4))}`,
  mimeType: "image/png",
});
const shown = (name: string, bytes: number): MessageDraft[] => [
  { role: "user", content: [{ type: "text", text: `Look at ${name}.` }, picture(bytes)] },
  { role: "assistant", content: `I saw ${name}.` },
];
const planted = async ({ compaction, ...options }: PlantOptions = {}) =>
  (
    await plant({
      turns: 0,
      log: { warn() {}, error() {} },
      ...options,
      compaction: { ...KEEP_MUCH, ...compaction },
    })
  ).session;

/** The request as it would go out: its bytes, and what is wrong with it. */
async function requested(session: Session) {
  const prepared = await session.prepareRequest({ system: "You look at pictures." });
  const request = buildRequest(prepared.context, { format: anthropicFormat, system: prepared.system });
  const problems = checkAnthropicRequest({ model: "claude", max_tokens: 1, ...request });
  const json = JSON.stringify(request);
  return { ...prepared, json, bytes: Buffer.byteLength(json), problems };
}

const picturesIn = (json: string): number => json.split('"type":"image"').length - 1;

describe("a request with more bytes than its provider accepts", () => {
  test.each(POLICY_NAMES)(
    "leaves out the oldest pictures; no text is lost and the log keeps all: %s",
    async (policy) => {
      const session = await planted({ policy });
      for (let at = 1; at <= 4; at++) await session.appendMessages(shown(`picture ${at}`, 60_000));
      await session.appendMessages([{ role: "user", content: "Which was the best?" }]);
      const before = bytesOf(session);
      const { json, bytes, problems, compaction, failure } = await requested(session);
      expect({ problems, compaction, failure }).toEqual({ problems: [], compaction: null, failure: null });
      expect(bytes).toBeLessThanOrEqual(MOST);
      expect(picturesIn(json)).toBe(2);
      for (let at = 1; at <= 4; at++) expect(json).toContain(`Look at picture ${at}.`);
      const added = addedSince(session, before);
      expect(added.map(({ type }) => type)).toEqual(["context_edit", "context_edit"]);
      await session.close();
    },
  );

  test("with one more image changes nothing of the parts already sent", async () => {
    const session = await planted();
    for (let at = 1; at <= 10; at++) await session.appendMessages(shown(`picture ${at}`, 40_000));
    const first = await requested(session);
    await session.appendMessages(shown("picture 11", 30_000));
    const size = bytesOf(session).length;
    const second = await requested(session);
    expect(bytesOf(session).length).toBe(size);
    expect(picturesIn(second.json)).toBe(4);
    const messages = ({ json }: { json: string }) => JSON.parse(json).messages as unknown[];
    expect(messages(second).slice(0, messages(first).length)).toEqual(messages(first));
    await session.close();
  });

  test("keeps images of the unanswered message, even if smaller ones must be left out", async () => {
    const session = await planted();
    for (let at = 1; at <= 4; at++) await session.appendMessages(shown(`picture ${at}`, 20_000));
    await session.appendMessages(shown("this one", 170_000).slice(0, 1));
    const { json, bytes, compaction } = await requested(session);
    expect(compaction).toBeNull();
    expect(bytes).toBeLessThanOrEqual(MOST);
    expect(picturesIn(json)).toBe(1);
    expect(json).toContain(picture(170_000).data);
    await session.close();
  });

  test("with too much text is compacted, even if it fits the window", async () => {
    const session = await planted({ compaction: { requestBytes: 40_000 } });
    for (let at = 1; at <= 12; at++)
      await session.appendMessages([
        { role: "user", content: `Question ${at}. ${"数据 ".repeat(500)}` },
        { role: "assistant", content: `Answer ${at}. ${"好的 ".repeat(500)}` },
      ]);
    const { bytes, compaction, problems } = await requested(session);
    expect(compaction).toMatchObject({ eligible: true });
    expect(problems).toEqual([]);
    expect(bytes).toBeLessThanOrEqual(40_000);
    await session.close();
  });

  test("leaves out images that a compaction keeps in the same write", async () => {
    const session = await planted({ compaction: { keepRecentTokens: 6_000 } });
    for (let at = 1; at <= 10; at++) await session.appendMessages(shown(`picture ${at}`, 60_000));
    const before = bytesOf(session);
    expect(await session.compact()).toMatchObject({ eligible: true });
    const types = addedSince(session, before).map(({ type }) => type);
    expect(types).toEqual(["compaction", ...Array(types.length - 1).fill("context_edit")]);
    expect(types.length).toBeGreaterThan(2);
    const { bytes, json } = await requested(session);
    expect(bytes).toBeLessThanOrEqual(MOST);
    expect(picturesIn(json)).toBe(2);
    await session.close();
  });

  test("after a refusal because of too many bytes has no images but those of the unanswered message", async () => {
    const session = await planted({ compaction: { requestBytes: 10_000_000 } });
    for (let at = 1; at <= 20; at++) await session.appendMessages(shown(`picture ${at}`, 3_000));
    await session.appendMessages(shown("the last", 3_000).slice(0, 1));
    const errorMessage = "413 request_too_large: Request exceeds the maximum size";
    await session.appendMessages([{ role: "assistant", content: [], stopReason: "error", errorMessage }]);
    expect(await session.compact({ reason: "overflow" })).toMatchObject({ eligible: true });
    const { json, problems } = await requested(session);
    expect(problems).toEqual([]);
    expect(picturesIn(json)).toBe(1);
    await session.close();
  });
});

describe("an unavoidable excess is a typed error, and no request is sent", () => {
  test("for a newest message with too many bytes", async () => {
    const session = await planted();
    await session.appendMessages(shown("a picture", 50_000));
    await session.appendMessages(shown("a large picture", 2 * MOST).slice(0, 1));
    const before = bytesOf(session);
    await expect(session.prepareRequest()).rejects.toMatchObject({
      name: "EspalierError",
      code: "over-bytes",
      message: expect.stringContaining("requestBytes"),
      breakdown: { newestUserMessage: expect.any(Number), requestBytes: MOST },
    });
    expect(bytesOf(session).equals(before)).toBe(true);
    await session.close();
  });

  test("for text that an extension's compactions keep", async () => {
    let compactions = 0;
    const keepMost: Extension = (api) => {
      api.on("session_before_compact", ({ branchEntries }) => {
        const asked = branchEntries.filter((entry) => isMessage(entry, "user"));
        return { compaction: { summary: "So far.", firstKeptEntryId: asked[++compactions]!.id } };
      });
    };
    const session = await planted({ extensions: [keepMost], compaction: { requestBytes: 20_000 } });
    for (let at = 1; at <= 12; at++)
      await session.appendMessages([
        { role: "user", content: `Question ${at}. ${"pears ".repeat(500)}` },
        { role: "assistant", content: `Answer ${at}.` },
      ]);
    await expect(session.prepareRequest()).rejects.toMatchObject({
      code: "over-bytes",
      breakdown: { context: expect.any(Number), systemAndTools: expect.any(Number), requestBytes: 20_000 },
    });
    expect(compactions).toBe(2);
    await session.close();
  });

  test("for anything with autoCompact off", async () => {
    const session = await planted({ compaction: { autoCompact: false } });
    for (let at = 1; at <= 10; at++) await session.appendMessages(shown(`picture ${at}`, 40_000));
    const before = bytesOf(session);
    await expect(session.prepareRequest()).rejects.toMatchObject({ code: "auto-off" });
    expect(bytesOf(session).equals(before)).toBe(true);
    await session.close();
  });
});

test("property: for any sizes, the sent request is within both budgets, or there is a typed error", async () => {
  const turn = fc.record({
    words: fc.integer({ min: 1, max: 6_000 }),
    word: fc.constantFrom("pears ", "数据", "\u0001"),
    pictures: fc.array(fc.integer({ min: 100, max: 30_000 }), { maxLength: 3 }),
    result: fc.integer({ min: 0, max: 40_000 }),
  });
  let sent = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(turn, { minLength: 1, maxLength: 10 }),
      fc.integer({ min: 2_000, max: 100_000 }),
      fc.integer({ min: 2_000, max: 30_000 }),
      fc.constantFrom(...POLICY_NAMES),
      fc.option(fc.nat(60_000)),
      async (turns, requestBytes, contextWindow, policy, waiting) => {
        const compaction = { requestBytes, contextWindow, reserveTokens: 500, keepRecentTokens: 1_000 };
        const session = await planted({ policy, compaction });
        for (const [at, { words, word, pictures, result }] of turns.entries()) {
          const content = [
            { type: "text", text: `${at}: ${word.repeat(words / word.length)}` },
            ...pictures.map(picture),
          ];
          const call = { type: "toolCall", id: `call-${at}`, name: "look", arguments: {} };
          await session.appendMessages([
            { role: "user", content },
            { role: "assistant", content: [call] },
            { role: "toolResult", toolCallId: call.id, content: `Seen. ${"x".repeat(result)}` },
            { role: "assistant", content: `Done with ${at}.` },
          ]);
        }
        const asked = waiting === null ? [] : [{ role: "user" as const, content: [picture(waiting)] }];
        await session.appendMessages(asked);
        const before = bytesOf(session);
        try {
          const { bytes, context, problems } = await requested(session);
          expect(problems).toEqual([]);
          expect(bytes).toBeLessThanOrEqual(requestBytes);
          expect(context.tokens).toBeLessThanOrEqual(contextWindow);
          sent++;
        } catch (error) {
          expect(error).toBeInstanceOf(EspalierError);
        }
        // Throws where what stood in the log has changed.
        addedSince(session, before);
        await session.close();
      },
    ),
    { numRuns: 60 },
  );
  expect(sent).toBeGreaterThan(20);
}, 30_000);
