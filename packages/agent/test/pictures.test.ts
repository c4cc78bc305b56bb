import { readFileSync } from "node:fs";
import type { Session } from "@espalier/engine";
import { textReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { type Stage, SUMMARY, server, stage } from "./stage.ts";

const picture = (bytes: number) => ({
  type: "image",
  data: `iVBORw0K${"AAAA".repeat(bytes / 4)}`,
  mimeType: "image/png",
});

const showing = (session: Session, day: number, bytes: number) =>
  session.appendMessages([
    { role: "user", content: [{ type: "text", text: `The garden on day ${day}.` }, picture(bytes)] },
    { role: "assistant", content: `I saw it on day ${day}.` },
  ]);

/** A provider, or a proxy before it, that takes so many bytes. */
const taking = (largestBody: number) =>
  server({
    largestBody,
    reply: ({ body }) =>
      JSON.stringify(body["messages"]).includes("asks for a summary") ||
      !JSON.stringify(body["system"] ?? "").includes("You tend a garden.")
        ? textReply(SUMMARY)
        : textReply("The pears grow."),
  });

/** Days of an image and a question each; every question is answered, and the file only grows. */
async function daysOf({ agent, session, events }: Stage, days: number, bytes: number) {
  let before = readFileSync(session.file);
  for (let day = 1; day <= days; day++) {
    await showing(session, day, bytes);
    const answer = await agent.run(`Day ${day}: how are the pears?`);
    expect(answer?.stopReason).toBe("stop");
    const after = readFileSync(session.file);
    expect(after.subarray(0, before.length).equals(before)).toBe(true);
    before = after;
  }
  const originals = before.toString().split(picture(bytes).data).length - 1;
  expect(originals).toBeGreaterThanOrEqual(days);
  return (type: string) => events.filter((event) => event.type === type).length;
}

test("a conversation with more images than one request may have continues, and no request is refused", async () => {
  const { url, requests } = await taking(400_000);
  const open = { compaction: { requestBytes: 400_000 } };
  const staged = await stage({ url, open });
  const count = await daysOf(staged, 12, 90_000);
  expect(count("retry")).toBe(0);
  expect(count("compact_done")).toBe(0);
  expect(count("pictures_left_out")).toBeGreaterThan(1);
  expect(requests).toHaveLength(12);
  expect(requests.flatMap(({ problems }) => problems)).toEqual([]);
  for (const { body } of requests) expect(JSON.stringify(body)).toContain('"type":"image"');
});

test("an unknown limit causes one refusal, and the conversation continues", async () => {
  const { url, requests } = await taking(300_000);
  const staged = await stage({ url });
  const count = await daysOf(staged, 8, 90_000);
  // Each time the images have come to that limit again.
  expect(count("retry")).toBe(2);
  expect(requests.flatMap(({ problems }) => problems)).toEqual([]);
});
