import { createSession, type Session } from "@espalier/engine";
import { fromAnthropic } from "@espalier/interop";
import { anthropicFormat, buildRequest, isMessage, memoryStore, message } from "@espalier/session-tree";
import { expect, test } from "vitest";
import { words } from "./build-session.ts";

// In pieces, so that nobody takes it for a real one.
const KEY = ["sk", "ant", "api03", "a1B2".repeat(24)].join("-");
const model = { provider: "anthropic", modelId: "claude-test" };
const tells = (thinking: string) => ({ type: "thinking", thinking, signature: `signed ${thinking}` });
const sealed = { type: "redacted_thinking", data: "b3BhcXVl" };
const calls = (id: string) => ({ type: "tool_use", id, name: "look", input: {} });
const answer = (...content: object[]) =>
  fromAnthropic([{ role: "assistant", content, model: model.modelId }]).messages;
const result = (toolCallId: string, content = "seen") => ({
  role: "toolResult" as const,
  toolCallId,
  content,
});

async function begun() {
  const compaction = { keepRecentTokens: 2_500 };
  const session = await createSession({ store: memoryStore(), compaction, log: { warn() {}, error() {} } });
  await session.appendMessages([{ role: "user", content: `Look. ${words(20)}` }]);
  return session;
}

/** The thoughts of a request at the leaf: texts of thinking, data of what is sealed. */
function thoughtsIn(session: Session): unknown[] {
  const { messages } = buildRequest(session.context, { format: anthropicFormat, model });
  const blocks = messages.flatMap(
    ({ content }) => content as { type: string; thinking?: string; data?: string }[],
  );
  return blocks.flatMap(({ thinking, data }) => thinking ?? data ?? []);
}

test("a key in one thinking block keeps all thinking of that answer from being sent, and no other", async () => {
  const session = await begun();
  await session.appendMessages(answer(tells("first"), calls("c1")));
  await session.appendMessages([
    result("c1"),
    ...answer(tells("second"), tells(`the key ${KEY}`), calls("c2")),
  ]);
  await session.appendMessages([result("c2")]);
  expect(JSON.stringify(session.getEntries())).not.toContain(KEY);
  expect(thoughtsIn(session)).toEqual(["first"]);
});

test("encrypted thinking is sent back unchanged", async () => {
  const session = await begun();
  await session.appendMessages([...answer(tells("first"), sealed, calls("c1")), result("c1")]);
  expect(thoughtsIn(session)).toEqual(["first", sealed.data]);
});

test("a compaction during a tool loop keeps the thinking of the kept answers", async () => {
  const session = await begun();
  for (const id of ["c1", "c2", "c3"])
    await session.appendMessages([...answer(tells(id), calls(id)), result(id, words(2_000))]);
  expect(await session.compact()).toMatchObject({ eligible: true });
  const kept = session.context.messages.filter(({ role }) => role === "assistant").length;
  expect(kept).toBeGreaterThan(0);
  expect(kept).toBeLessThan(3);
  expect(thoughtsIn(session)).toEqual(["c1", "c2", "c3"].slice(-kept));
});

test("hiding an entry during a tool loop keeps its thinking; after the loop it is left out", async () => {
  const session = await begun();
  for (const id of ["c1", "c2"]) await session.appendMessages([...answer(tells(id), calls(id)), result(id)]);
  const prompt = session.getBranch().find((entry) => isMessage(entry, "user"))!;
  await session.hide(prompt.id);
  const first = session
    .getBranch()
    .find((entry) => message.is(entry) && entry.message.role === "toolResult")!;
  await session.hide(first.id);
  expect(thoughtsIn(session)).toEqual(["c1", "c2"]);
  await session.appendMessages([
    ...answer({ type: "text", text: "Done." }),
    { role: "user", content: "And?" },
  ]);
  expect(thoughtsIn(session)).toEqual([]);
});
