import { createSession, type MessageDraft, type RequestPreparation, type Session } from "@espalier/engine";
import { anthropicFormat, buildRequest, memoryStore, modelChange } from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";
import { addedSince, bytesOf } from "./build-session.ts";

/** A PNG of this size, as far as anybody looks who does not draw it. */
function png(width: number, height: number, bytes = 60): string {
  const data = Buffer.alloc(Math.max(bytes, 33));
  Buffer.from("89504e470d0a1a0a0000000d49484452", "hex").copy(data);
  data.writeUInt32BE(width, 16);
  data.writeUInt32BE(height, 20);
  return data.toString("base64");
}
const picture = (data: string) => ({ type: "image", data, mimeType: "image/png" });
const small = () => picture(png(100, 100));
const large = () => picture(png(2_400, 1_000));

const begun = async (provider?: string) => {
  const session = await createSession({ store: memoryStore() });
  if (provider) await session.append(modelChange.of({ provider, modelId: "m" }));
  return session;
};
const show = (session: Session, ...pictures: object[]) => {
  const content = [{ type: "text", text: "Look." }, ...pictures] as { type: string }[];
  const drafts: MessageDraft[] = [
    { role: "user", content },
    { role: "assistant", content: "I see." },
  ];
  return session.appendMessages(drafts);
};

/** The request as it would go out: its images in order, what stands in their place, and what was told. */
async function requested(session: Session, options?: RequestPreparation) {
  const { context, picturesLeftOut } = await session.prepareRequest(options);
  const request = buildRequest(context, { format: anthropicFormat });
  const problems = checkAnthropicRequest({ model: "claude", max_tokens: 1, ...request });
  expect(problems).toEqual([]);
  const blocks = request.messages.flatMap(({ content }) => content as { type: string; text?: string }[]);
  const words = blocks.flatMap(({ text = "" }) => (text.startsWith("[image left out") ? [text] : []));
  return { pictures: blocks.filter(({ type }) => type === "image").length, words, told: picturesLeftOut };
}

describe("an image that the provider never accepts is left out, even in an unanswered message", () => {
  test.each([
    ["of 9,000 pixels", picture(png(9_000, 10)), "9000 pixels"],
    ["of 9,000 pixels in height", picture(png(10, 9_000)), "9000 pixels"],
    ["of more than 5 MB", picture(png(10, 10, 4_200_000)), "characters of base64"],
    ["that is not base64", picture("this is no base64!"), "base64"],
    [
      "of a kind that no model reads",
      { ...picture("QUJD"), mimeType: "image/tiff" },
      "not a PNG, JPEG, GIF or WebP",
    ],
  ])("%s", async (_what, given, reason) => {
    const session = await begun("anthropic");
    await show(session, small());
    await session.appendMessages([{ role: "user", content: [{ type: "text", text: "This?" }, given] }]);
    const asked = session.leafId!;
    const { pictures, words, told } = await requested(session);
    expect(pictures).toBe(1);
    expect(words).toEqual([expect.stringContaining(reason)]);
    expect(told).toEqual([{ entryId: asked, reason: expect.stringContaining(reason) }]);
    expect(session.getEntry(asked)).toMatchObject({ message: { content: [{}, given] } });
    expect((await requested(session)).told).toEqual([]);
  });
});

describe("a request with many images", () => {
  test("above 100 leaves out the oldest, and makes room for the next ones", async () => {
    const session = await begun("anthropic");
    for (let at = 0; at < 101; at++) await show(session, small());
    expect(await requested(session)).toMatchObject({ pictures: 75, told: { length: 26 } });
    const before = bytesOf(session);
    for (let at = 0; at < 25; at++) await show(session, small());
    const size = bytesOf(session).length;
    expect(await requested(session)).toMatchObject({ pictures: 100, told: [] });
    expect(bytesOf(session)).toHaveLength(size);
    expect(addedSince(session, before).some(({ type }) => type === "context_edit")).toBe(false);
  });

  test("above 20 leaves out old images of more than 2,000 pixels", async () => {
    const session = await begun("anthropic");
    for (let at = 0; at < 3; at++) await show(session, large());
    for (let at = 0; at < 17; at++) await show(session, small());
    expect(await requested(session)).toMatchObject({ pictures: 20, told: [] });
    await show(session, small());
    expect(await requested(session)).toMatchObject({ pictures: 18, told: { length: 3 } });
  });

  test("above 20, with an unanswered image of more than 2,000 pixels, leaves out the oldest and keeps it", async () => {
    const session = await begun("anthropic");
    for (let at = 0; at < 25; at++) await show(session, small());
    await session.appendMessages([{ role: "user", content: [large()] }]);
    const { pictures, told } = await requested(session);
    expect({ pictures, told: told.length }).toEqual({ pictures: 15, told: 11 });
  });

  test("counts a result that no model has read as unanswered", async () => {
    const session = await begun("anthropic");
    for (let at = 0; at < 25; at++) await show(session, small());
    const call = { type: "toolCall", id: "c1", name: "look", arguments: {} };
    await session.appendMessages([
      { role: "user", content: "Look again." },
      { role: "assistant", content: [call] },
      { role: "toolResult", toolCallId: "c1", content: [large()] },
    ]);
    const { context } = await session.prepareRequest();
    expect(JSON.stringify(context.messages.at(-1))).toContain(large().data);
  });

  test("all new and too many leaves out the too large ones, otherwise the oldest", async () => {
    const session = await begun("anthropic");
    await session.appendMessages([
      { role: "user", content: [...Array.from({ length: 30 }, small), large()] },
    ]);
    expect(await requested(session)).toMatchObject({ pictures: 30, told: { length: 1 } });
    await session.appendMessages([{ role: "user", content: Array.from({ length: 90 }, small) }]);
    expect(await requested(session)).toMatchObject({ pictures: 100, told: { length: 20 } });
  });
});

test("uses the limits of its provider, which a caller can change", async () => {
  const openai = await begun("openai");
  for (let at = 0; at < 120; at++) await show(openai, at % 2 ? small() : large());
  await show(openai, picture(png(9_000, 10)));
  expect(await requested(openai)).toMatchObject({ pictures: 121, told: [] });
  expect(await requested(openai, { pictures: { count: 8 } })).toMatchObject({ pictures: 6 });
  const unknown = await begun();
  await show(unknown, picture(png(9_000, 10)));
  expect(await requested(unknown)).toMatchObject({ pictures: 0 });
});

test("leaves out nothing with autoCompact off", async () => {
  const session = await createSession({ store: memoryStore(), compaction: { autoCompact: false } });
  await show(session, picture(png(9_000, 10)));
  expect(await requested(session)).toMatchObject({ pictures: 1, told: [] });
});
