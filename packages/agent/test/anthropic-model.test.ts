import { createAgent } from "@espalier/agent";
import { createSession } from "@espalier/engine";
import { fromAnthropic, fromOpenaiChat, fromOpenaiResponses } from "@espalier/interop";
import { isMessage, memoryStore } from "@espalier/session-tree";
import { textReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { claude, quiet, SUMMARY, server } from "./stage.ts";

test("a fixed budget for thinking is added to the tokens of the answer", async () => {
  const { url, requests } = await server({ reply: textReply("Pears.") });
  const session = await createSession({ store: memoryStore(), log: quiet });
  const model = claude(url, { parameters: { thinking: { type: "enabled", budget_tokens: 20_000 } } });
  expect(await createAgent({ session, model }).run("What grows here?")).toMatchObject({ stopReason: "stop" });
  expect(requests[0]).toMatchObject({ problems: [], body: { max_tokens: 36_384 } });
});

test("a context without room for fixed thinking is compacted before it is sent, not after a refusal", async () => {
  const contextWindow = 60_000;
  const { url, requests } = await server({ reply: textReply(SUMMARY), contextWindow });
  const compaction = { keepRecentTokens: 5_000 };
  const session = await createSession({ store: memoryStore(), log: quiet, compaction });
  for (const turn of ["one", "two", "three", "four"])
    await session.appendMessages([
      { role: "user", content: `${turn} ${"pears ".repeat(5_000)}` },
      { role: "assistant", content: "Ripe." },
    ]);
  const model = claude(url, {
    contextWindow,
    parameters: { thinking: { type: "enabled", budget_tokens: 20_000 } },
  });
  expect(await createAgent({ session, model }).run("What grows here?")).toMatchObject({ stopReason: "stop" });
  expect(session.getEntries().map((entry) => entry.type)).toContain("compaction");
  const answers = session
    .getEntries()
    .flatMap((entry) => (isMessage(entry, "assistant") ? entry.message : []));
  expect(answers.filter(({ stopReason }) => stopReason === "error")).toEqual([]);
  expect(requests.filter(({ body }) => body["thinking"]).length).toBe(1);
});

test("a refusal is reported in the same way for a direct answer of Claude and an imported one", async () => {
  const { url } = await server({ reply: textReply("I cannot.", { stopReason: "refusal" }) });
  const session = await createSession({ store: memoryStore(), log: quiet });
  const model = claude(url);
  const said = await createAgent({ session, model }).run("What grows here?");
  const response = {
    role: "assistant",
    content: [{ type: "text", text: "I cannot." }],
    stop_reason: "refusal",
  };
  const refusal = "I cannot.";
  const imported = [
    fromAnthropic([response]),
    fromOpenaiChat([{ role: "assistant", content: null, refusal }]),
    fromOpenaiChat([{ role: "assistant", content: [{ type: "refusal", refusal }] }]),
    fromOpenaiResponses([{ type: "message", role: "assistant", content: [{ type: "refusal", refusal }] }]),
  ].flatMap(({ messages }) => messages);
  expect(imported).toHaveLength(4);
  for (const answer of [said, ...imported])
    expect(answer).toMatchObject({ stopReason: "error", errorMessage: "The model stopped: refusal." });
});
