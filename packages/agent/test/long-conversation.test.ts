import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createAgent } from "@espalier/agent";
import { scriptedModel } from "@espalier/agent/testing";
import { openSession } from "@espalier/engine";
import {
  anthropicFormat,
  buildRequest,
  buildSessionContext,
  isCustom,
  isMessage,
} from "@espalier/session-tree";
import { checkAnthropicRequest } from "@espalier/session-tree/testing";
import { type ReceivedRequest, textReply, toolReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { entriesOf, quiet, SUMMARY, server, stage, textsOf, workingFolder } from "./stage.ts";

const WINDOW = 60_000;
/** The messages and what stands before them, without the markers of the cache, which are no part of what is cached. */
const unmarked = ({ body }: ReceivedRequest) =>
  JSON.parse(JSON.stringify(body, (key, value) => (key === "cache_control" ? undefined : value)));

const isSummaryRequest = ({ body }: ReceivedRequest) =>
  /summary of (?:what stands above|a part)|asks for a summary/.test(JSON.stringify(body["messages"])) ||
  !JSON.stringify(body["system"] ?? "").includes("You tend a garden.");

/** What a kill at any event of the long conversation leaves: bytes of the file, and how many days were asked about. */
const moments = new Map<number, number>();
let whole: Buffer = Buffer.alloc(0);

const daysIn = (file: string) => textsOf(file, "user").map((text) => text.split(":")[0]);

test("sixty turns with tools pass the threshold three times and overflow once; every request is valid, and the cached prefix stays byte-equal between compactions", async () => {
  let turn = 0;
  let refused = false;
  const sent: { request: ReceivedRequest; compactions: number }[] = [];
  const { url, requests, failures } = await server({
    contextWindow: WINDOW,
    reply: (request) => {
      if (isSummaryRequest(request)) return textReply(SUMMARY);
      sent.push({ request, compactions: done() });
      const messages = request.body["messages"] as { content: { type: string }[] }[];
      if (messages.at(-1)!.content[0]!.type === "tool_result") {
        return {
          kind: "message",
          content: [
            { type: "thinking", thinking: `Turn ${turn}: ä € 🌱`, signature: `sig-${turn}==` },
            { type: "text", text: `Day ${turn}. ${"The pears grow. ".repeat(540)}` },
          ],
        };
      }
      if (turn === 30 && !refused) {
        refused = true;
        return {
          kind: "error",
          status: 400,
          type: "invalid_request_error",
          message: `prompt is too long: ${WINDOW + 1} tokens > ${WINDOW} maximum`,
        };
      }
      return {
        kind: "message",
        content: [
          { type: "thinking", thinking: `I look (${turn}).`, signature: `call-sig-${turn}` },
          { type: "tool_use", id: `toolu_${turn}`, name: "read_file", input: { path: "garden/notes.txt" } },
        ],
      };
    },
  });
  const { agent, session, events } = await stage({
    url,
    contextWindow: WINDOW,
    open: { compaction: { keepRecentTokens: 8_000 } },
  });
  let days = 0;
  agent.on((event) => {
    if (event.type === "entry" && isMessage(event.entry, "user")) days = turn;
    moments.set(statSync(session.file).size, days);
  });
  const done = () => events.filter(({ type }) => type === "compact_done").length;
  for (turn = 1; turn <= 60; turn++) {
    const answer = await agent.run(`Day ${turn}: how are the pears? ${"Look well. ".repeat(160)}`);
    expect(answer?.stopReason).toBe("stop");
  }

  expect(failures).toEqual([]);
  expect(requests.filter(({ problems }) => problems.length > 0).map(({ problems }) => problems)).toEqual([]);
  // However little of a request was made anew, it is what JSON makes of it.
  for (const { raw, body } of requests) expect(raw.toString("utf8")).toBe(JSON.stringify(body));
  const reasons = entriesOf(session.file)
    .filter(({ type }) => type === "compaction")
    .map((entry) => (entry as unknown as { details: { reason: string } }).details.reason);
  expect(reasons.filter((reason) => reason === "overflow")).toHaveLength(1);
  expect(reasons.filter((reason) => reason === "threshold").length).toBeGreaterThanOrEqual(3);

  whole = readFileSync(session.file);
  expect(daysIn(session.file)).toEqual(Array.from({ length: 60 }, (_, at) => `Day ${at + 1}`));
  expect(textsOf(session.file, "toolResult")).toHaveLength(60);
  expect(entriesOf(session.file).filter((entry) => isCustom(entry, "espalier.sent"))).toHaveLength(
    sent.length,
  );

  let compared = 0;
  for (const [at, { request, compactions }] of sent.entries()) {
    const before = sent[at - 1];
    if (!before || before.compactions !== compactions) continue;
    const [older, newer] = [unmarked(before.request), unmarked(request)];
    const { messages: known, ...rest } = older;
    expect({ ...newer, messages: newer.messages.slice(0, known.length) }).toEqual({
      ...rest,
      messages: known,
    });
    expect(JSON.stringify(newer.messages.slice(0, known.length))).toBe(JSON.stringify(known));
    compared++;
  }
  expect(compared).toBeGreaterThan(100);
  // Thinking goes back as it came, byte for byte, until what stood before it is compacted.
  const exact = '"thinking":"Turn 12: ä € 🌱","signature":"sig-12=="';
  expect(sent.some(({ request }) => request.raw.toString("utf8").includes(exact))).toBe(true);
}, 300_000);

test("a copy of the file at each event of that conversation continues, with nothing lost or repeated", async () => {
  expect(moments.size).toBeGreaterThan(300);
  const home = workingFolder();
  const file = join(home, "killed.jsonl");
  const model = scriptedModel(() => ({ text: "Well." }));
  for (const [size, days] of moments) {
    writeFileSync(file, whole.subarray(0, size));
    const session = await openSession({ file }, { home, log: quiet });
    await createAgent({ session, model }).continue();
    // Before the first prompt there is nothing to send.
    const { context } = session;
    const request = days > 0 && {
      model: "m",
      max_tokens: 1,
      ...buildRequest(context, { format: anthropicFormat }),
    };
    await session.close();
    const bytes = readFileSync(file);
    expect(bytes.subarray(0, size).equals(whole.subarray(0, size))).toBe(true);
    const ids = entriesOf(file).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(daysIn(file)).toEqual(Array.from({ length: days }, (_, at) => `Day ${at + 1}`));
    if (request) expect(checkAnthropicRequest(request), `${size}`).toEqual([]);
  }
}, 300_000);

test("a second overflow in a row is an error that lists the parts that cannot shrink", async () => {
  const { url } = await server({
    reply: (request) =>
      isSummaryRequest(request)
        ? textReply(SUMMARY)
        : { kind: "error", status: 413, type: "request_too_large", message: "Payload Too Large" },
  });
  const { agent, session } = await stage({ url, open: { compaction: { keepRecentTokens: 500 } } });
  for (let at = 0; at < 6; at++) {
    await session.appendMessages([
      { role: "user", content: `Say it ${"again ".repeat(300)}` },
      { role: "assistant", content: [{ type: "text", text: "So it is. ".repeat(200) }] },
    ] as never);
  }
  const failure = await agent.run("And once more?").catch((error) => error);
  expect(failure).toMatchObject({ name: "EspalierError", code: "overflow" });
  expect(Object.keys(failure.breakdown)).toEqual([
    "systemAndTools",
    "newestUserMessage",
    "context",
    "contextWindow",
  ]);
  expect(agent.isRunning).toBe(false);
});

test("an empty answer at a full window is an overflow too: it is left out and requested again", async () => {
  let asked = 0;
  const { url } = await server({
    reply: (request) => {
      if (isSummaryRequest(request)) return textReply(SUMMARY);
      asked++;
      return asked === 1
        ? textReply("Half of it was cut.", {
            stopReason: "max_tokens",
            usage: {
              output_tokens: 0,
              input_tokens: WINDOW + 1,
              cache_read_input_tokens: 0,
              cache_creation_input_tokens: 0,
            },
          })
        : textReply("All of it.");
    },
  });
  const { agent, session, events } = await stage({
    url,
    contextWindow: WINDOW,
    open: { compaction: { keepRecentTokens: 200 } },
  });
  for (let at = 0; at < 4; at++) {
    await session.appendMessages([
      { role: "user", content: `Say it ${"again ".repeat(300)}` },
      { role: "assistant", content: [{ type: "text", text: "So it is. ".repeat(200) }] },
    ] as never);
  }
  const answer = await agent.run("What grows here?");
  expect(answer?.content).toEqual([{ type: "text", text: "All of it." }]);
  expect(JSON.stringify(session.context.messages)).not.toContain("Half of it");
  expect(textsOf(session.file, "assistant")).toContain("Half of it was cut.");
  expect(events.map(({ type }) => type)).toContain("retry");
});

test("a complete answer to a request above the window is kept: the path is compacted, and nothing is sent again", async () => {
  let asked = 0;
  const { url, requests } = await server({
    reply: (request) => {
      if (isSummaryRequest(request)) return textReply(SUMMARY);
      asked++;
      return textReply("The pears are ripe.", {
        usage: { output_tokens: 9, input_tokens: asked === 1 ? WINDOW : 900, cache_read_input_tokens: 1 },
      });
    },
  });
  const { agent, session, events } = await stage({
    url,
    contextWindow: WINDOW,
    open: { compaction: { keepRecentTokens: 200 } },
  });
  for (let at = 0; at < 4; at++) {
    await session.appendMessages([
      { role: "user", content: `Say it ${"again ".repeat(300)}` },
      { role: "assistant", content: [{ type: "text", text: "So it is. ".repeat(200) }] },
    ] as never);
  }
  expect(await agent.run("What grows here?")).toMatchObject({ content: [{ text: "The pears are ripe." }] });
  expect(asked).toBe(1);
  const [compaction] = entriesOf(session.file).filter(({ type }) => type === "compaction");
  expect(compaction).toMatchObject({ details: { reason: "overflow" } });
  expect(events.map(({ type }) => type)).not.toContain("retry");
  expect(JSON.stringify(session.context.messages)).toContain("The pears are ripe.");
  expect(await agent.run("And now?")).toMatchObject({ stopReason: "stop" });
  expect(requests.flatMap(({ problems }) => problems)).toEqual([]);
});

test("after a compaction, listeners get the list of messages that the model now reads", async () => {
  const { url } = await server({ reply: () => textReply(SUMMARY) });
  const { agent, session, events } = await stage({ url, open: { compaction: { keepRecentTokens: 200 } } });
  for (let at = 0; at < 4; at++) {
    await session.appendMessages([
      { role: "user", content: `Say it ${"again ".repeat(300)}` },
      { role: "assistant", content: [{ type: "text", text: "So it is. ".repeat(200) }] },
    ] as never);
  }
  expect(await agent.forceCompact()).toMatchObject({ success: true });
  const told = events.slice(-2);
  expect(told.map(({ type }) => type)).toEqual(["compact_done", "messages_replaced"]);
  expect(told[1]).toMatchObject({ messages: buildSessionContext(session.tree).messages });
});

test("with autoCompact off, an overflow is an error, and nothing is compacted", async () => {
  const { url } = await server({
    reply: { kind: "error", status: 400, type: "invalid_request_error", message: "prompt is too long" },
  });
  const { agent, session } = await stage({ url, open: { compaction: { autoCompact: false } } });
  await expect(agent.run("What grows here?")).rejects.toMatchObject({ code: "auto-off" });
  expect(entriesOf(session.file).some(({ type }) => type === "compaction")).toBe(false);
});

test("a model that calls tools forever is stopped, and its results are stored", async () => {
  const { url } = await server({ reply: () => toolReply([{ name: "list_files", input: {} }]) });
  const { agent, session } = await stage({ url });
  const failure = await agent.run("What grows here?", { maxIterations: 3 }).catch((error) => error);
  expect(failure).toMatchObject({ name: "MaxIterations", iterations: 3 });
  expect(textsOf(session.file, "toolResult")).toEqual(
    ["garden/", "garden/", "garden/"].map((text) => expect.stringContaining(text)),
  );
});
