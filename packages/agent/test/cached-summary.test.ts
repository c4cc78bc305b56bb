import { compaction } from "@espalier/session-tree";
import { textReply } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { entriesOf, SUMMARY, server, stage } from "./stage.ts";

test("a context that nearly fills the window is summarized through the provider's cache", async () => {
  const { url, requests } = await server({
    contextWindow: 60_000,
    reply: ({ body }) =>
      JSON.stringify(body["messages"]).includes("asks for a summary")
        ? textReply(SUMMARY)
        : textReply("The pears grow. ".repeat(1_200)),
  });
  // One answer takes 4,800 tokens: it is kept together with its question.
  const open = { compaction: { keepRecentTokens: 4_804 } };
  const { agent, session } = await stage({ url, contextWindow: 60_000, open });
  for (let day = 1; day <= 8; day++) await agent.run(`Day ${day}: how are the pears?`);
  const before = requests.at(-1)!.body["messages"] as unknown[];
  expect(agent.contextTokens).toBeGreaterThan(30_000);
  expect(await agent.forceCompact()).toMatchObject({ success: true });

  // The request that was sent last, and one instruction more: most of it is not paid for again.
  expect(requests).toHaveLength(9);
  expect(requests.flatMap(({ problems }) => problems)).toEqual([]);
  expect(requests.at(-1)!.body["messages"]).toHaveLength(before.length + 1);
  const { usage } = entriesOf(session.file).find(compaction.is)!;
  expect(usage?.cacheRead).toBeGreaterThan(30_000);
});
