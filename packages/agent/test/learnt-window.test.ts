import { openSession } from "@espalier/engine";
import { compaction } from "@espalier/session-tree";
import { textReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { entriesOf, quiet, SUMMARY, server, stage } from "./stage.ts";

/** What the provider takes, and what the agent believes that it takes. */
const REAL = 40_000;
const BELIEVED = 200_000;

test("a window smaller than configured is taken from the first refusal, and recorded in the session", async () => {
  const { url, requests } = await server({
    contextWindow: REAL,
    reply: ({ body }) =>
      JSON.stringify(body["messages"]).includes("asks for a summary") ||
      !JSON.stringify(body["system"] ?? "").includes("You tend a garden.")
        ? textReply(SUMMARY)
        : textReply("The pears grow. ".repeat(400)),
  });
  const open = { compaction: { keepRecentTokens: 4_000 } };
  const { agent, session, events, cwd } = await stage({ url, contextWindow: BELIEVED, open });
  const overflows = () => events.filter(({ type }) => type === "retry").length;
  const day = async (n: number) => {
    const answer = await agent.run(`Day ${n}: how are the pears? ${"Look well. ".repeat(160)}`);
    expect(answer?.stopReason).toBe("stop");
  };
  let n = 0;
  expect(agent.contextWindow).toBe(BELIEVED);
  while (overflows() === 0 && n < 30) await day(++n);
  expect(overflows()).toBe(1);
  expect(agent.contextWindow).toBe(REAL);
  expect(agent.contextTokens).toBeLessThan(REAL);

  // From now on it is compacted in time, twice, and nothing is refused any more.
  const compactions = () => entriesOf(session.file).filter(compaction.is);
  while (compactions().length < 3 && n < 60) await day(++n);
  expect(compactions().map(({ details }) => (details as { reason: string }).reason)).toEqual([
    "overflow",
    "threshold",
    "threshold",
  ]);
  expect(overflows()).toBe(1);
  expect(requests.flatMap(({ problems }) => problems)).toEqual([]);

  // The answer that was refused lies behind two compactions: the session knows it all the same.
  await session.close();
  const again = await stage({ url, contextWindow: BELIEVED, open, file: session.file, cwd });
  expect(again.agent.contextWindow).toBe(REAL);
  // It is that model's alone.
  await again.agent.setModel({ ...again.agent.model, modelId: "claude-sonnet-4-5" });
  expect(again.agent.contextWindow).toBe(BELIEVED);
  await again.session.close();
  // Whoever compacts without an agent goes by it too.
  const planning = await openSession({ file: session.file }, { home: cwd, log: quiet, ...open });
  await planning.navigate(compactions().at(-1)!.id);
  await planning.appendMessages([{ role: "user", content: "More. ".repeat(20_000) }]);
  expect(await planning.compactWhenDue()).toBeDefined();
  await planning.close();
});

test("a window configured smaller than the provider's stays unchanged", async () => {
  const { url } = await server({
    reply: ({ body }, at) =>
      at === 1
        ? {
            kind: "error",
            status: 400,
            type: "invalid_request_error",
            message: "prompt is too long: 200001 tokens > 200000 maximum",
          }
        : JSON.stringify(body["messages"]).includes("asks for a summary")
          ? textReply(SUMMARY)
          : textReply("Pears."),
  });
  const open = { compaction: { keepRecentTokens: 100 } };
  const { agent, session } = await stage({ url, contextWindow: 60_000, open });
  for (let at = 0; at < 3; at++)
    await session.appendMessages([
      { role: "user", content: "More. ".repeat(300) },
      { role: "assistant", content: "Yes. ".repeat(300) },
    ] as never);
  expect(await agent.run("What grows here?")).toMatchObject({ stopReason: "stop" });
  expect(agent.contextWindow).toBe(60_000);
});
